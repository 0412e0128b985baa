"""What the job learns from a real schema registry, and what it makes of one that fails."""

import json
import logging
import socket
import ssl
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient

from orders_pipeline.errors import (
    NoAnswerError,
    RefusedError,
    SettingsError,
)
from orders_pipeline.registry import latest, writer_schemas
from orders_pipeline.settings import Settings, Topic, load

from tests.support.certificates import Authority
from tests.support.gate import Gate, open_gate
from tests.support.registry import Registry, RegistryUnavailableError, start_registry

SECRET = "s3cr3t-w0rd"  # noqa: S105  # of nothing


@pytest.fixture
def client(registry: Registry) -> SchemaRegistryClient:
    return SchemaRegistryClient({"url": registry.url})


@pytest.fixture
def gate(registry: Registry) -> Iterator[Gate]:
    with open_gate(registry.url) as opened:
        yield opened


def topic_of(url: str, **settings: Any) -> Topic:
    """A topic that no other test has."""
    name = f"events-{uuid.uuid4().hex[:12]}"
    general: dict[str, Any] = {
        "name": "test",
        "topics": [name],
        "trigger": "availableNow",
        "registry": {"url": url, "timeout_s": 3, **settings},
    }
    return Settings(**general).topic_settings(name)


def avro(*fields: str) -> Schema:
    optional = [{"name": name, "type": ["null", "string"], "default": None} for name in fields]
    return Schema(json.dumps({"type": "record", "name": "Event", "fields": optional}), "AVRO")


def register(client: SchemaRegistryClient, topic: Topic, *schemas: Schema) -> list[int]:
    return [client.register_schema(f"{topic.name}-value", schema) for schema in schemas]


# --- what is registered


def test_every_version_is_listed_with_its_id_type_and_text(
    registry: Registry, client: SchemaRegistryClient
) -> None:
    topic = topic_of(registry.url)
    first, second = register(client, topic, avro("a"), avro("a", "b"))
    found = writer_schemas(topic, "AVRO")
    assert {each.id: (each.version, each.type, each.references) for each in found.values()} == {
        first: (1, "AVRO", ()),
        second: (2, "AVRO", ()),
    }
    assert json.loads(found[second].schema) == json.loads(avro("a", "b").schema_str or "")
    assert latest(topic, "AVRO") == found[second]


def test_new_version_is_there_at_the_next_call(
    registry: Registry, client: SchemaRegistryClient
) -> None:
    topic = topic_of(registry.url)
    before = register(client, topic, avro("a"))
    assert list(writer_schemas(topic, "AVRO")) == before
    after = register(client, topic, avro("a", "b"))
    assert list(writer_schemas(topic, "AVRO")) == before + after


def test_schemas_are_fetched_once_and_the_list_at_each_call(
    gate: Gate, client: SchemaRegistryClient
) -> None:
    topic = topic_of(gate.url)
    register(client, topic, *(avro(*"abcdef"[:n]) for n in range(1, 6)))
    assert len(writer_schemas(topic, "AVRO")) == 5
    gate.paths.clear()
    assert len(writer_schemas(topic, "AVRO")) == 5
    assert len(gate.paths) == 2


def test_softly_deleted_version_is_still_listed_and_is_not_the_latest(
    registry: Registry, client: SchemaRegistryClient
) -> None:
    topic = topic_of(registry.url)
    first, second = register(client, topic, avro("a"), avro("a", "b"))
    client.delete_version(f"{topic.name}-value", 2)
    assert list(writer_schemas(topic, "AVRO")) == [first, second]
    assert latest(topic, "AVRO").id == first


def test_version_deleted_for_good_is_gone(registry: Registry, client: SchemaRegistryClient) -> None:
    topic = topic_of(registry.url)
    first, _ = register(client, topic, avro("a"), avro("a", "b"))
    assert len(writer_schemas(topic, "AVRO")) == 2
    for permanent in (False, True):
        client.delete_version(f"{topic.name}-value", 2, permanent)
    assert list(writer_schemas(topic, "AVRO")) == [first]


def test_subject_registered_anew_under_the_same_version_numbers_has_its_new_ids(
    registry: Registry, client: SchemaRegistryClient
) -> None:
    topic = topic_of(registry.url)
    old = register(client, topic, avro("old"))
    assert list(writer_schemas(topic, "AVRO")) == old
    for permanent in (False, True):
        client.delete_subject(f"{topic.name}-value", permanent)
    new = register(client, topic, avro("new"))
    assert new != old
    assert list(writer_schemas(topic, "AVRO")) == new


def test_references_come_with_their_texts_each_after_what_it_needs(
    registry: Registry, client: SchemaRegistryClient
) -> None:
    topic = topic_of(registry.url)
    made = {
        "base.proto": 'syntax = "proto3"; package x; message Base { int64 n = 1; }',
        "money.proto": 'syntax = "proto3"; package x; import "base.proto"; '
        "message Money { Base b = 1; }",
    }
    base = SchemaReference("base.proto", f"{topic.name}-base", 1)
    money = SchemaReference("money.proto", f"{topic.name}-money", 1)
    client.register_schema(f"{topic.name}-base", Schema(made["base.proto"], "PROTOBUF"))
    client.register_schema(f"{topic.name}-money", Schema(made["money.proto"], "PROTOBUF", [base]))
    text = 'syntax = "proto3"; package x; import "money.proto"; import "base.proto"; '
    text += "message Event { Money m = 1; Base b = 2; }"
    register(client, topic, Schema(text, "PROTOBUF", [money, base]))
    [found] = writer_schemas(topic, "PROTOBUF").values()
    assert (found.schema, dict(found.references)) == (text, made)
    assert [each.name for each in found.references] == ["base.proto", "money.proto"]


def test_subject_of_another_name_is_found(registry: Registry, client: SchemaRegistryClient) -> None:
    topic = topic_of(registry.url, subject="of {topic}, value")
    id_ = client.register_schema(f"of {topic.name}, value", avro("a"))
    assert list(writer_schemas(topic, "AVRO")) == [id_]


@pytest.mark.parametrize("ask", [writer_schemas, latest])
def test_unknown_subject_is_refused_by_its_name(registry: Registry, ask: Any) -> None:
    topic = topic_of(registry.url)
    with pytest.raises(RefusedError, match=f"has no subject '{topic.name}-value'"):
        ask(topic, "AVRO")


@pytest.mark.parametrize("ask", [writer_schemas, latest])
def test_subject_of_another_type_is_refused_with_the_answer_to_change(
    registry: Registry, client: SchemaRegistryClient, ask: Any
) -> None:
    topic = topic_of(registry.url)
    register(client, topic, avro("a"))
    with pytest.raises(RefusedError, match=r"holds AVRO .* reads JSON.*value_format=avro"):
        ask(topic, "JSON")


def test_versions_of_another_type_are_left_out(
    gate: Gate, caplog: pytest.LogCaptureFixture
) -> None:
    """Confluent's registry may hold two types in one subject, Apicurio refuses to: made up here."""
    versions = {
        "1": {"id": 1, "version": 1, "schema": "{}", "schemaType": "JSON"},
        "2": {"id": 2, "version": 2, "schema": avro("a").schema_str},
    }

    def answer(path: str) -> bytes:
        asked = path.split("?")[0].split("/versions")[1].strip("/")
        return json.dumps(versions[asked] if asked else [1, 2]).encode()

    gate.answer = answer
    assert list(writer_schemas(topic_of(gate.url), "AVRO")) == [2]
    assert "has JSON as id 1" in caplog.text


# --- a registry that fails


def test_registry_that_is_killed_is_no_answer_within_the_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("SCHEMA_REGISTRY_URL", raising=False)  # that one is not ours to kill
    with start_registry() as mortal:
        topic = topic_of(mortal.url)
        register(SchemaRegistryClient({"url": mortal.url}), topic, avro("a"))
        assert writer_schemas(topic, "AVRO")
        mortal.stop()
        began = time.monotonic()
        with pytest.raises(NoAnswerError, match=r"within 3 s: ConnectError .*refused"):
            writer_schemas(topic, "AVRO")
        assert 3 <= time.monotonic() - began < 4


def test_silent_registry_is_no_answer_within_the_bound() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        began = time.monotonic()
        with pytest.raises(NoAnswerError, match="ReadTimeout"):
            writer_schemas(topic_of(f"http://127.0.0.1:{silent.getsockname()[1]}"), "AVRO")
        assert 3 <= time.monotonic() - began < 6


@pytest.mark.parametrize("status", [500, 503, 429])
def test_registry_that_fails_for_a_while_is_asked_again(
    gate: Gate, client: SchemaRegistryClient, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    topic = topic_of(gate.url)
    ids = register(client, topic, avro("a"))
    gate.statuses = [status, status]
    assert list(writer_schemas(topic, "AVRO")) == ids
    assert caplog.text.count(f"does not answer (HTTP {status})") == 2


def test_registry_that_goes_on_failing_is_no_answer(gate: Gate) -> None:
    gate.statuses = [503] * 100
    with pytest.raises(NoAnswerError, match="within 3 s: HTTP 503"):
        writer_schemas(topic_of(gate.url), "AVRO")


@pytest.mark.parametrize("path", ["", "/apis/ccompat/v7/nothing"])
def test_url_of_something_else_is_a_wrong_setting(registry: Registry, path: str) -> None:
    root = registry.url.removesuffix("/apis/ccompat/v7")
    with pytest.raises(SettingsError, match=r"no schema registry at .* HTTP 404.*registry\.url"):
        writer_schemas(topic_of(root + path), "AVRO")


def test_page_and_redirect_are_a_wrong_setting(gate: Gate) -> None:
    gate.statuses = [301]
    with pytest.raises(SettingsError, match="it gives HTTP 301"):
        writer_schemas(topic_of(gate.url), "AVRO")
    gate.answer = lambda path: b"<html>log in</html>"
    with pytest.raises(SettingsError, match="not JSON"):
        writer_schemas(topic_of(gate.url), "AVRO")


# --- credentials


AUTHORIZATIONS = {
    "basic": {"PIPELINE_REGISTRY_USER": "reader", "PIPELINE_REGISTRY_PASSWORD": SECRET},
    "bearer": {"PIPELINE_REGISTRY_TOKEN": SECRET},
}
HEADERS = {"basic": "Basic cmVhZGVyOnMzY3IzdC13MHJk", "bearer": f"Bearer {SECRET}"}


@pytest.mark.parametrize("auth", ["basic", "bearer"])
def test_credentials_of_the_environment_open_the_registry(
    gate: Gate, client: SchemaRegistryClient, auth: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate.authorization = HEADERS[auth]
    for name, value in AUTHORIZATIONS[auth].items():
        monkeypatch.setenv(name, value + "\n")  # as a file's content often ends
    topic = topic_of(gate.url, auth=auth)
    ids = register(client, topic, avro("a"))
    assert list(writer_schemas(topic, "AVRO")) == ids


@pytest.mark.parametrize("auth", ["basic", "bearer"])
def test_refused_credentials_are_named_by_their_variables_and_never_shown(
    gate: Gate, auth: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    gate.authorization = "other"
    for name, value in AUTHORIZATIONS[auth].items():
        monkeypatch.setenv(name, value)
    caplog.set_level(logging.DEBUG)
    topic = topic_of(gate.url, auth=auth)
    with pytest.raises(SettingsError) as refused:
        writer_schemas(topic, "AVRO")
    said = f"{refused.getrepr(showlocals=False)} {topic!r} {topic.settings!r} {caplog.text}"
    assert all(name in str(refused.value) for name in AUTHORIZATIONS[auth])
    assert SECRET not in said
    assert HEADERS[auth] not in said


@pytest.mark.parametrize("auth", ["basic", "bearer"])
def test_missing_credentials_are_named_by_their_variables(gate: Gate, auth: str) -> None:
    with pytest.raises(SettingsError, match=next(iter(AUTHORIZATIONS[auth]))):
        writer_schemas(topic_of(gate.url, auth=auth), "AVRO")


def test_registry_that_wants_credentials_where_none_are_set_is_a_wrong_setting(gate: Gate) -> None:
    gate.authorization = "any"
    with pytest.raises(SettingsError, match=r"HTTP 401.*auth is none: set it to basic"):
        writer_schemas(topic_of(gate.url), "AVRO")


@pytest.mark.parametrize("token", [f"{SECRET}\nmore", f"{SECRET}\u00e9"])
def test_token_that_no_header_takes_is_not_shown(
    gate: Gate, token: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("PIPELINE_REGISTRY_TOKEN", token)
    with pytest.raises(SettingsError, match="PIPELINE_REGISTRY_TOKEN") as refused:
        writer_schemas(topic_of(gate.url, auth="bearer"), "AVRO")
    assert SECRET not in f"{refused.getrepr()} {caplog.text}"


# --- TLS


@pytest.fixture
def tls_gate(registry: Registry, tmp_path: Path) -> Iterator[Gate]:
    """Shows a certificate of the authority ours.pem, and wants one of the same to be shown."""
    ours = Authority(tmp_path, "ours")
    ours.certify("client")
    ours.certify("locked", password=SECRET.encode())
    Authority(tmp_path, "theirs").certify("stranger")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=ours.file)
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_cert_chain(*ours.certify("server"))
    with open_gate(registry.url, context) as opened:
        yield opened


def tls(folder: Path, authority: str, owner: str | None = None) -> dict[str, Path]:
    shown = {"ca_file": folder / f"{authority}.pem"}
    if owner:
        shown |= {
            "certificate_file": folder / f"{owner}.pem",
            "key_file": folder / f"{owner}.key",
        }
    return shown


@pytest.mark.parametrize("owner", ["client", "locked"])
def test_certificate_of_the_client_opens_the_registry(
    tls_gate: Gate,
    client: SchemaRegistryClient,
    tmp_path: Path,
    owner: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if owner == "locked":
        monkeypatch.setenv("PIPELINE_REGISTRY_KEY_PASSWORD", SECRET)
    topic = topic_of(tls_gate.url, **tls(tmp_path, "ours", owner))
    ids = register(client, topic, avro("a"))
    assert list(writer_schemas(topic, "AVRO")) == ids


@pytest.mark.parametrize("owner", [None, "stranger"])
def test_client_without_a_certificate_of_the_authority_is_shut_out(
    tls_gate: Gate, tmp_path: Path, owner: str | None
) -> None:
    with pytest.raises((SettingsError, NoAnswerError)):
        writer_schemas(topic_of(tls_gate.url, **tls(tmp_path, "ours", owner)), "AVRO")
    assert not tls_gate.paths


@pytest.mark.parametrize("authority", ["theirs", None])
def test_registry_of_an_unknown_authority_is_refused_at_once(
    tls_gate: Gate, tmp_path: Path, authority: str | None
) -> None:
    shown = tls(tmp_path, authority, "client") if authority else {}
    began = time.monotonic()
    with pytest.raises(SettingsError, match=r"CERTIFICATE_VERIFY_FAILED.*registry\.ca_file"):
        writer_schemas(topic_of(tls_gate.url, **shown), "AVRO")
    assert time.monotonic() - began < 1
    assert not tls_gate.paths


def test_handshake_that_is_cut_short_is_asked_again() -> None:
    """A registry that goes down may end a connection there."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def cut() -> None:
            with suppress(OSError):  # closed at the end of the test
                while True:
                    server.accept()[0].close()

        threading.Thread(target=cut, daemon=True).start()
        with pytest.raises(NoAnswerError):
            writer_schemas(topic_of(f"https://127.0.0.1:{server.getsockname()[1]}"), "AVRO")


def test_https_url_of_a_registry_without_tls_is_a_wrong_setting(registry: Registry) -> None:
    with pytest.raises(SettingsError, match=r"No TLS .* Check registry\.url"):
        writer_schemas(topic_of(registry.url.replace("http:", "https:")), "AVRO")


@pytest.mark.parametrize("wrong", ["no such file", "no PEM", "no password", "a wrong password"])
def test_file_that_cannot_be_read_is_a_wrong_setting(
    tls_gate: Gate, tmp_path: Path, wrong: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = tls(tmp_path, "ours", "locked")
    if wrong == "a wrong password":
        monkeypatch.setenv("PIPELINE_REGISTRY_KEY_PASSWORD", "wrong")
    if wrong == "no PEM":
        shown["ca_file"].write_text("nothing")
    if wrong == "no such file":
        shown["ca_file"].unlink()
    with pytest.raises(SettingsError, match="certificates for the schema registry cannot be read"):
        writer_schemas(topic_of(tls_gate.url, **shown), "AVRO")


# --- the settings


@pytest.mark.parametrize(
    ("url", "said"),
    [
        (f"http://reader:{SECRET}@host:8081", "holds credentials"),
        (f"http://reader:{SECRET}/#?@host:8081", "holds credentials"),
        ("host:8081", "is not a URL"),
        ("http://", "is not a URL"),
        ("http://host:8081?a=b", "is not a URL"),
    ],
)
def test_url_that_is_none_or_holds_credentials_is_refused_and_not_shown(
    url: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIPELINE_REGISTRY__URL", url)
    with pytest.raises(SettingsError, match=f"registry.url: .*{said}") as refused:
        load()
    assert SECRET not in f"{refused.getrepr()}"


def test_key_without_a_certificate_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIPELINE_REGISTRY__KEY_FILE", "key.pem")
    with pytest.raises(SettingsError, match=r"registry: .*certificate_file is not"):
        load()


def test_credentials_are_no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIPELINE_REGISTRY_USER", "reader")
    monkeypatch.setenv("PIPELINE_REGISTRY_PASSWORD", SECRET)
    monkeypatch.setenv("PIPELINE_REGISTRY_TOKEN", SECRET)
    monkeypatch.setenv("PIPELINE_REGISTRY_KEY_PASSWORD", SECRET)
    assert SECRET not in f"{load()!r} {load().model_dump()}"


def test_password_given_as_a_setting_is_refused_and_not_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PIPELINE_REGISTRY__PASSWORD", SECRET)
    with pytest.raises(SettingsError, match=r"registry\.password: Extra inputs") as refused:
        load()
    assert SECRET not in f"{refused.getrepr()}"


# --- the registry of the tests


def test_registry_that_does_not_start_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SCHEMA_REGISTRY_URL", raising=False)
    monkeypatch.setenv("JDK_JAVA_OPTIONS", "-XX:+NoSuchOption")
    with pytest.raises(RegistryUnavailableError, match="Unrecognized VM option"), start_registry():
        pass


def test_registry_of_the_environment_is_used_and_not_stopped(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCHEMA_REGISTRY_URL", registry.url)
    with start_registry() as found:
        assert found.url == registry.url
    with start_registry() as again:
        assert SchemaRegistryClient({"url": again.url}).get_schema_types()
    monkeypatch.setenv("SCHEMA_REGISTRY_URL", "http://127.0.0.1:1")
    with pytest.raises(RegistryUnavailableError, match="refused"), start_registry(timeout_s=0.5):
        pass
