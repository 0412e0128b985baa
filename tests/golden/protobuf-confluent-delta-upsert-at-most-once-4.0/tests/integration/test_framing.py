"""Values with a schema registry's header: several versions, wrong ones, a registry that fails."""

from typing import Any

import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient

from orders_pipeline import streams
from orders_pipeline.errors import BreakerTripped, NoAnswerError
from orders_pipeline.pipeline import ingest
from orders_pipeline.registry_settings import RegistrySettings

from tests.support.gate import open_gate
from tests.support.pipeline import MakePipeline, bad, encoded, event
from tests.support.records import encode
from tests.support.registry import Registry

HEADER_BYTES = 6
"""A zero byte, the schema's id, the index of its first message: what makes a value a framed one."""


def test_versions_are_rows_and_wrong_headers_are_dead_letters_in_one_batch(
    make: MakePipeline,
) -> None:
    """Sent: two versions of the schema, the first without its header, and under an unknown id."""
    pipeline = make()
    key, value, *rest = encoded(pipeline.topic, event("a", 1))
    second = encode(pipeline.topic, {"id": "b", "amount": 2}, version=2)
    assert value[:5] != second[:5]
    unknown = b"\0\xff\xff\xff\xff" + value[HEADER_BYTES:]
    pipeline.send(*((key, each, *rest) for each in (value, second, value[HEADER_BYTES:], unknown)))

    pipeline.drain()

    assert [(row.id, row.amount) for row in pipeline.rows()] == [("a", 1), ("b", 2)]
    letters = pipeline.letters()
    assert [letter.value for letter in letters] == [value[HEADER_BYTES:], unknown]
    reasons = [x.headers["__connect.errors.exception.class.name"] for x in letters]
    assert reasons == [b"not_framed", b"unknown_schema"]


def test_message_index_in_every_form_is_read_or_names_the_wrong_message(
    make: MakePipeline, registry: Registry
) -> None:
    """Sent: our message, as its file's first and second; others of its file, one of them nested.

    The second version and what it imports are registered as text, as Java's serializer does.
    """
    pipeline = make()
    client = SchemaRegistryClient({"url": registry.url})
    name = pipeline.topic.name
    base = 'syntax = "proto3"; package other; message Base { int32 n = 1; }'
    client.register_schema(f"{name}-base", Schema(base, "PROTOBUF"))
    text = (
        'syntax = "proto3"; import "other/base.proto"; '
        "message Outer { message Inner { int32 n = 1; } other.Base base = 1; } "
        "message Event { string id = 1; } message Last { Outer.Inner inner = 1; }"
    )
    references = [SchemaReference("other/base.proto", f"{name}-base", 1)]
    second = client.register_schema(f"{name}-value", Schema(text, "PROTOBUF", references))
    framed = encode(pipeline.topic, {"id": "a", "amount": 1})
    first, payload = framed[:5], framed[6:]
    ours = [first + b"\0" + payload, first + b"\2\0" + payload]
    other = b"\0" + second.to_bytes(4, "big")
    ours.append(other + b"\2\2" + payload)
    others = [other + index for index in (b"\0", b"\2\4", b"\4\0\0", b"\2\x0c")]
    pipeline.send(*((b"key", value, [], 0) for value in [*ours, *others, other + b"\4\2"]))

    pipeline.drain()

    assert [row.amount for row in pipeline.rows()] == [1]
    letters = [letter.headers for letter in pipeline.letters()]
    reasons = [headers["__connect.errors.exception.class.name"] for headers in letters]
    assert reasons == [b"wrong_message"] * 4 + [b"undecodable"]
    messages = [headers["__connect.errors.exception.message"] or b"" for headers in letters]
    for found, expected in zip(messages, (b"Outer;", b"Last;", b"Outer.Inner;"), strict=False):
        assert expected in found


def test_version_that_is_new_while_the_stream_runs_is_read(make: MakePipeline) -> None:
    """Sent: a record; then one under a version that was not registered before."""
    pipeline = make()
    pipeline.send(event("a", 1))
    pipeline.drain()
    pipeline.send((b"b", encode(pipeline.topic, {"id": "b", "amount": 2}, version=2), [], 0))
    pipeline.drain()

    assert [row.id for row in pipeline.rows()] == ["a", "b"]


def test_topic_of_bare_values_stops_and_the_error_names_the_answer_to_change(
    make: MakePipeline,
) -> None:
    """Sent: a framed record, and three without a header."""
    pipeline = make(breaker={"min_rejected": 3})
    key, value, *rest = encoded(pipeline.topic, event("a", 1))
    pipeline.send((key, value, *rest), *[(key, value[HEADER_BYTES:], *rest)] * 3)

    with pytest.raises(BreakerTripped, match="--data schema_registry=none"):
        pipeline.drain()

    assert [row.id for row in pipeline.rows()] == ["a"]


def test_no_record_is_given_up_while_the_registry_does_not_answer(
    make: MakePipeline, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Down: the registry, from before the first batch on. Then it is up again."""
    pipeline = make()
    pipeline.send(event("a", 1), bad("b"))
    with open_gate(registry.url) as gate:
        gated = RegistrySettings(url=gate.url, timeout_s=1)
        pipeline.settings = pipeline.settings.model_copy(update={"registry": gated})

        def ingest_without(*arguments: Any) -> None:
            gate.statuses = [503] * 1000
            ingest(*arguments)

        with monkeypatch.context() as patch:
            patch.setattr(streams, "ingest", ingest_without)
            with pytest.raises(NoAnswerError, match="HTTP 503"):
                pipeline.drain()

        gate.statuses = []
        assert pipeline.rows() == []
        pipeline.drain()
        assert [row.id for row in pipeline.rows()] == ["a"]
    assert [letter.key for letter in pipeline.letters()] == [b"b"]
