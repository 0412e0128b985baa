"""Where a setting comes from, and what is said of a wrong one."""

import os
import re
import socket
from pathlib import Path

import pytest

from orders_pipeline import metrics, settings
from orders_pipeline.errors import SettingsError
from orders_pipeline.settings import Settings, load

OTHER = "s3a://other"
LAKE = "s3a://lake"
UNNAMED = "s3a://YOUR-BUCKET"


@pytest.fixture
def conf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A settings file of the test's own, empty."""
    path = tmp_path / "pipeline.toml"
    path.touch()
    monkeypatch.setenv("PIPELINE_CONF", str(path))
    monkeypatch.setenv("PIPELINE_TOPICS", '["orders", "refunds"]')
    monkeypatch.setenv("PIPELINE_CHECKPOINT_LOCATION", f"{LAKE}/checkpoints")
    monkeypatch.setenv("PIPELINE_TABLE__LOCATION", f"{LAKE}/")
    return path


def test_environment_wins_over_the_file_and_the_file_over_the_defaults(
    conf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    conf.write_text('trigger = "7 seconds"\n[kafka]\nbootstrap_servers = "file:9092"\n')
    monkeypatch.setenv("PIPELINE_KAFKA__BOOTSTRAP_SERVERS", "environment:9092")
    settings = load()
    assert settings.trigger == "7 seconds"
    assert settings.kafka.bootstrap_servers == "environment:9092"
    assert settings.consumer_group == "orders-pipeline"


def test_topic_takes_what_is_said_of_it_and_the_rest_from_table(conf: Path) -> None:
    conf.write_text(f'[topic."refunds"]\nlocation = "{OTHER}/here"\n')
    settings = load()
    assert settings.topic_settings("orders").location == f"{LAKE}/orders"
    assert settings.topic_settings("refunds").location == f"{OTHER}/here/refunds"


@pytest.mark.parametrize(
    ("given", "taken"),
    [
        ("broker:9092", "broker:9092"),
        ("a_1.b-2.example.com:1, [::1]:65535 ", "a_1.b-2.example.com:1,[::1]:65535"),
        ("[fe80::1%eth0]:9092", "[fe80::1%eth0]:9092"),
    ],
)
def test_brokers_are_taken_as_both_clients_read_them(conf: Path, given: str, taken: str) -> None:
    conf.write_text(f'[kafka]\nbootstrap_servers = "{given}"')
    assert load().kafka.bootstrap_servers == taken


@pytest.mark.parametrize(
    "given",
    [
        *("", "broker", "broker:", ":9092", "a:9092,b", "a:9092,", "a:9092 b:9092", "a:0"),
        *("a:65536", "::1:9092", "[::1]", "SSL://a:9092"),
    ],
)
def test_broker_without_a_host_or_a_port_is_refused(conf: Path, given: str) -> None:
    conf.write_text(f'[kafka]\nbootstrap_servers = "{given}"')
    with pytest.raises(SettingsError, match=r"kafka\.bootstrap_servers: .* is not host:port"):
        load()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('trigger = "often"', "trigger"),
        ("[breaker]\nmax_rejected_ratio = 7", "breaker.max_rejected_ratio"),
        ("[kafka]\nbootstrap_server = 1", "kafka.bootstrap_server: Extra inputs"),
        ("[kafka]\nstarting_offsets = '{\"0\": 12,}'", "kafka.starting_offsets: .* is not offsets"),
        ('[kafka]\nstarting_offsets = \'{"orders": {"0": 12}}\'', "is not offsets"),
        ("[kafka", "cannot be read"),
        ('[topic."other"]\nschema_changes = "add"', "topic.other is not one of topics"),
        ('[topic."refunds"]\ncolour = "x"', 'wrong. topic."refunds": colour: Extra inputs'),
    ],
)
def test_wrong_setting_is_named(conf: Path, text: str, said: str) -> None:
    conf.write_text(text)
    with pytest.raises(SettingsError, match=said):
        load()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PIPELINE_TOPIC__REFUNDS__PARTITION_COLUMNS", '["a"]'),
        ("PIPELINE_TOPIC", '{"refunds": {"partition_columns": ["a"]}}'),
    ],
)
def test_list_of_one_topic_comes_from_a_variable_as_json(
    conf: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    tables = load().tables
    assert tables["refunds"].partition_columns == ["a"]
    assert tables["orders"].partition_columns != ["a"]


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("PIPELINE_CONF", "/nowhere/pipeline.toml", "PIPELINE_CONF names /nowhere"),
        ("PIPELINE_TOPICS", "orders", 'field "topics"'),
        ("PIPELINE_TOPICS", '["orders", "orders"]', "one of its names twice"),
    ],
)
def test_wrong_variable_is_named(
    conf: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str, said: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(SettingsError, match=said):
        load()


def test_variable_that_nothing_reads_is_refused(
    conf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIPELINE_KAFAK__BOOTSTRAP_SERVERS", "broker:9092")
    with pytest.raises(SettingsError, match="has PIPELINE_KAFAK__BOOTSTRAP_SERVERS, which no"):
        load()


@pytest.mark.parametrize(
    "name", ["PIPELINE_CHECKPOINT_LOCATON", "PIPELINE_KAFKA_BOOTSTRAP_SERVERS", "pipeline_jars"]
)
def test_variable_that_may_be_a_platforms_is_told_of(
    conf: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    monkeypatch.setenv(name, "1")
    load()
    assert f"the variable {name} is not read" in caplog.text


def test_variable_is_taken_in_any_case(conf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("Pipeline_kafka__Bootstrap_Servers", "environment:9092")
    assert load().kafka.bootstrap_servers == "environment:9092"


def test_variables_that_other_modules_read_are_known(
    conf: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    sources = [path.read_text() for path in Path(settings.__file__).parent.glob("*.py")]
    named = set(re.findall("PIPELINE_[A-Z_]+", "".join(sources)))
    for name in named - {*os.environ}:
        if name.removeprefix("PIPELINE_").lower().split("__")[0] not in Settings.model_fields:
            monkeypatch.setenv(name, "x")
    load()
    assert not caplog.text


def test_port_that_is_in_use_is_named() -> None:
    with socket.create_server(("0.0.0.0", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(SettingsError, match=rf"metrics\.port is {port}, .*Nothing was started"):
            metrics.serve(port)


@pytest.mark.parametrize("location", ["data/checkpoints", "s3://lake/x", f"{UNNAMED}/x"])
def test_place_outside_a_bucket_is_refused(
    conf: Path, monkeypatch: pytest.MonkeyPatch, location: str
) -> None:
    monkeypatch.setenv("PIPELINE_CHECKPOINT_LOCATION", location)
    with pytest.raises(SettingsError, match=f"checkpoint_location: .*'{location}' is no place"):
        load()


def test_unknown_topic_is_refused_with_those_that_there_are(conf: Path) -> None:
    with pytest.raises(SettingsError, match="It has: orders, refunds"):
        load().topic_settings("nothing")
