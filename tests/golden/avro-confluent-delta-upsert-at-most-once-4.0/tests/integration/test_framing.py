"""Values with a schema registry's header: several versions, wrong ones, a registry that fails."""

from typing import Any

import pytest

from orders_pipeline import streams
from orders_pipeline.errors import BreakerTripped, NoAnswerError
from orders_pipeline.pipeline import ingest
from orders_pipeline.registry_settings import RegistrySettings

from tests.support.gate import open_gate
from tests.support.pipeline import DDL, MakePipeline, bad, encoded, event
from tests.support.records import encode
from tests.support.registry import Registry

HEADER_BYTES = 5
"""A zero byte, the schema's id: what makes a value a framed one."""


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


def test_each_version_is_read_in_our_schema_or_its_records_are_dead_letters(
    make: MakePipeline, caplog: pytest.LogCaptureFixture
) -> None:
    """Sent: without our field note; with one that we have not; without our required amount."""
    pipeline = make()
    for ddl, value in (
        ("amount INT NOT NULL, id STRING NOT NULL", {"id": "a", "amount": 1}),
        (f"{DDL}, other STRING", {"id": "b", "amount": 2, "note": "x", "other": "y"}),
        ("id STRING NOT NULL, other STRING NOT NULL", {"id": "c", "other": "z"}),
    ):
        pipeline.write_schema(ddl)
        pipeline.send((b"key", value, [], 0))
    pipeline.write_schema(DDL)

    pipeline.drain()

    rows = [(row.id, row.amount, row.note) for row in pipeline.rows()]
    assert rows == [("a", 1, None), ("b", 2, "x")]
    assert "fields that this pipeline's has not, so they are not read: other" in caplog.text
    [letter] = pipeline.letters()
    assert letter.headers["__connect.errors.exception.class.name"] == b"incompatible_schema"
    assert b"amount" in (letter.headers["__connect.errors.exception.message"] or b"")


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
