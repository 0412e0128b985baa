"""A topic's schema that changes in the registry: what is not read, taken up or cannot be read."""

import json
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from prometheus_client import REGISTRY

from orders_pipeline import binding, compatibility, new_fields, streams
from orders_pipeline.columns import row_columns
from orders_pipeline.doctor import examine
from orders_pipeline.errors import RefusedError
from orders_pipeline.pipeline import ingest
from orders_pipeline.registry_settings import RegistrySettings
from orders_pipeline.settings import KafkaSettings, Topic
from orders_pipeline.table import prepare

from tests.support.pipeline import DDL, MakePipeline, Pipeline, event
from tests.support.records import encode
from tests.support.tables import read_table
from tests.support.topics import wait_until


def register(topic: Topic, schema: object) -> None:
    """Makes it the newest version of the topic's schema."""
    client = SchemaRegistryClient({"url": topic.settings.registry.url})
    text = json.dumps(schema)
    client.register_schema(f"{topic.name}-value", Schema(text, "AVRO"))


def second(pipeline: Pipeline, key: str, **fields: str) -> tuple[bytes, bytes, list[object], int]:
    """A record that was written with version 2, which has a field more: since_2."""
    value = encode(pipeline.topic, {"id": key, "amount": 2, **fields}, version=2)
    return (key.encode(), value, [], 0)


def versions_with(topic: Topic, field: str) -> float | None:
    labels = {"topic": topic.name, "field": field}
    return REGISTRY.get_sample_value("ingest_unread_field_versions", labels)


def test_fields_that_are_not_read_are_named_once_and_counted(
    make: MakePipeline, caplog: pytest.LogCaptureFixture
) -> None:
    """Sent: a record; then three under a new version, in two batches. Expected: rows at once."""
    pipeline = make(kafka={"max_offsets_per_trigger": 2})
    pipeline.send(event("a", 1))
    pipeline.drain()
    assert versions_with(pipeline.topic, "since_2") is None
    pipeline.send(*(second(pipeline, key, since_2="x") for key in "bcd"))
    pipeline.drain()

    assert [row.id for row in pipeline.rows()] == ["a", "b", "c", "d"]
    assert "since_2" not in pipeline.rows()[0].asDict()
    assert caplog.text.count("so they are not read: since_2") == 1
    assert versions_with(pipeline.topic, "since_2") == 1


# --- which can read the other


ID = {"name": "id", "type": "string"}
AMOUNT = {"name": "amount", "type": "int"}
NOTE = {"name": "note", "type": ["null", "string"], "default": None}
MORE = {"name": "more", "type": "string"}


def record(*fields: object) -> object:
    return {"type": "record", "name": "Event", "fields": list(fields)}


VERSIONS = {
    "FULL": record(NOTE, ID, AMOUNT),
    "BACKWARD": record(ID, AMOUNT, NOTE, MORE),
    "FORWARD": record(ID, NOTE),
    "NONE": record(ID, {"name": "amount", "type": "string"}, NOTE),
}
"""What the registry's newest version is, for each word: ours has id, amount and note."""


@pytest.mark.parametrize("word", ["FULL", "BACKWARD"])
def test_version_that_can_be_read_passes_with_its_word(
    make: MakePipeline, capsys: pytest.CaptureFixture[str], word: str
) -> None:
    pipeline = make()
    register(pipeline.topic, VERSIONS[word])
    assert compatibility.compare(pipeline.topic).startswith(f"{word} with version 2")
    assert examine(pipeline.spark, pipeline.settings)
    said = capsys.readouterr().out
    assert f"ok    compatibility: {word} with version 2" in said
    assert (".avsc: more" in said) == (word == "BACKWARD")


@pytest.mark.parametrize("word", ["FORWARD", "NONE"])
def test_version_that_cannot_be_read_fails_with_its_word(
    make: MakePipeline, capsys: pytest.CaptureFixture[str], word: str
) -> None:
    """Looked at: schemas alone, without a broker, as CI does."""
    pipeline = make()
    register(pipeline.topic, VERSIONS[word])
    with pytest.raises(RefusedError, match=f"{word} with version 2"):
        compatibility.compare(pipeline.topic)
    nobody = {"kafka": KafkaSettings(bootstrap_servers="localhost:1")}
    settings = pipeline.settings.model_copy(update=nobody)
    assert not examine(pipeline.spark, settings, schemas_only=True)
    assert f"FAIL  compatibility: {word}" in capsys.readouterr().out


def test_check_of_the_schemas_fails_when_no_registry_answers(
    make: MakePipeline, capsys: pytest.CaptureFixture[str]
) -> None:
    pipeline = make()
    nobody = {"registry": RegistrySettings(url="http://localhost:1", timeout_s=1)}
    settings = pipeline.settings.model_copy(update=nobody)
    assert not examine(pipeline.spark, settings, schemas_only=True)
    said = capsys.readouterr().out
    assert "FAIL  schema registry: No answer" in said
    assert "FAIL  compatibility: see schema registry, above" in said


# --- new fields, taken up


def send_under_a_new_version_meanwhile(pipeline: Pipeline, patch: pytest.MonkeyPatch) -> None:
    """Two records, a batch each. In the first one's batch, a third comes under version 2."""
    pipeline.send(event("a", 1), event("b", 1))
    sent: list[bool] = []

    def ingest_and_send(*arguments: Any) -> None:
        ingest(*arguments)
        if not sent:
            sent.append(True)
            pipeline.send(second(pipeline, "c", since_2="x"))

    patch.setattr(streams, "ingest", ingest_and_send)


def rows(pipeline: Pipeline) -> list[tuple[str, str | None]]:
    return [(row.id, row.since_2) for row in pipeline.rows()]


def ignore_new_fields(pipeline: Pipeline) -> None:
    registry = pipeline.settings.registry.model_copy(update={"new_fields": "ignore"})
    pipeline.settings = pipeline.settings.model_copy(update={"registry": registry})


ALL = [("a", None), ("b", None), ("c", "x")]


@pytest.fixture
def widening(make: MakePipeline, monkeypatch: pytest.MonkeyPatch) -> Pipeline:
    """A pipeline that takes up new fields, and meets one in its second batch."""
    pipeline = make(registry={"new_fields": "add"}, kafka={"max_offsets_per_trigger": 1})
    send_under_a_new_version_meanwhile(pipeline, monkeypatch)
    return pipeline


def test_new_field_becomes_a_column_between_two_batches(
    widening: Pipeline, capsys: pytest.CaptureFixture[str]
) -> None:
    widening.drain()

    assert rows(widening) == ALL
    assert [balance.batch for balance in widening.balances] == [0, 1, 2]
    assert [balance.written for balance in widening.balances] == [1, 1, 1]
    assert versions_with(widening.topic, "since_2") is None
    [taken_up] = new_fields.remembered(widening.topic)
    assert examine(widening.spark, widening.settings)
    assert f"taken up; put them into {widening.topic.schema_path}" in capsys.readouterr().out
    assert taken_up.name == "since_2"


def test_new_field_of_one_topic_is_taken_up_while_both_go_on(make: MakePipeline) -> None:
    """Running: two topics, with a batch a second. New: a field of the first one's records."""
    names = [f"{name}-{uuid.uuid4().hex[:8]}" for name in ("widens", "stays")]
    pipeline = make(topics=names, trigger="1 seconds", registry={"new_fields": "add"})
    stopping = threading.Event()

    def send_to_both(key: str) -> None:
        for name in names:
            pipeline.send(event(key, 1), topic=name)

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(streams.run, pipeline.spark, pipeline.settings, stopping, [])

        def wait_until_written(count: int) -> None:
            def is_written() -> bool:
                if running.done():
                    running.result()
                return sum(balance.written for balance in pipeline.balances) == count

            wait_until(is_written, 120, f"{count} rows are written")

        try:
            send_to_both("a")
            wait_until_written(2)
            pipeline.send(second(pipeline, "b", since_2="x"))
            wait_until_written(3)
            send_to_both("c")
            wait_until_written(5)
        finally:
            stopping.set()
        running.result()

    assert rows(pipeline) == [("a", None), ("b", "x"), ("c", None)]
    other = read_table(pipeline.spark, pipeline.settings.topic_settings(names[1]))
    assert "since_2" not in other[0]
    assert sorted(row.id for row in other) == ["a", "c"]


@pytest.mark.parametrize("step", ["bind", "remember", "_start"])
def test_crash_while_a_field_is_taken_up_loses_and_repeats_nothing(
    widening: Pipeline, step: str
) -> None:
    """Crashed: before the table has the column, before it is remembered, before the restart."""
    where = {"bind": binding, "remember": new_fields, "_start": streams}[step]
    as_it_is, calls = getattr(where, step), []

    def die(*arguments: Any, **options: Any) -> Any:
        calls.append(step)
        if len(calls) == (1 if step == "remember" else 2):  # the other two begin each run
            raise RuntimeError("crash")
        return as_it_is(*arguments, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(where, step, die)
        with pytest.raises(RuntimeError, match="crash"):
            widening.drain()
    assert [row.id for row in widening.rows()] == ["a"]
    widening.drain()

    assert rows(widening) == ALL


def test_field_that_was_taken_up_stays_until_it_is_in_the_schema(widening: Pipeline) -> None:
    """Started again: without the setting; then with the field in schemas/, by then required."""
    widening.drain()
    ignore_new_fields(widening)
    widening.send(second(widening, "d", since_2="y"))
    widening.drain()
    assert rows(widening) == [*ALL, ("d", "y")]

    widening.write_schema(f"{DDL}, since_2 STRING")
    fields = new_fields.read_schema(widening.topic).fieldNames()
    assert fields == ["id", "amount", "note", "since_2"]
    widening.send(event("e", 1, since_2="z"))
    widening.drain()
    assert rows(widening) == [*ALL, ("d", "y"), ("e", "z")]


def test_field_whose_column_has_another_type_is_refused_until_it_is_ignored(
    make: MakePipeline,
) -> None:
    """There: a column since_2 of numbers. New: a field since_2 of text. Then it is ignored."""
    pipeline = make(registry={"new_fields": "add"})
    pipeline.send(event("a", 1))
    pipeline.drain()
    columns = row_columns(pipeline.spark, pipeline.topic, new_fields.read_schema(pipeline.topic))
    prepare(pipeline.spark, pipeline.topic, columns.add("since_2", "integer"))
    pipeline.send(second(pipeline, "b", since_2="x"))
    with pytest.raises(RefusedError, match="The column since_2 of the table"):
        pipeline.drain()
    assert new_fields.remembered(pipeline.topic) == []

    ignore_new_fields(pipeline)
    pipeline.drain()
    assert rows(pipeline) == [("a", None), ("b", None)]


def test_field_that_no_table_holds_is_left_and_named(
    make: MakePipeline, caplog: pytest.LogCaptureFixture
) -> None:
    """New: one that is never anything but null, one called as the key, one that a table holds."""
    pipeline = make(registry={"new_fields": "add"})
    beside = {"name": "ID", "type": ["null", "string"], "default": None}
    nothing = {"name": "nothing", "type": "null"}
    register(pipeline.topic, record(ID, AMOUNT, NOTE, nothing, beside, MORE))
    pipeline.send(event("a", 1))
    pipeline.drain()

    assert "ID of version 2 is not taken up: a table does not tell it from a key" in caplog.text
    assert "nothing of version 2 is not taken up" in caplog.text
    assert pipeline.rows()[0].asDict().keys() >= {"id", "more"}
    assert "nothing" not in pipeline.rows()[0].asDict()


def test_nested_types_of_a_new_field_are_taken_up_with_their_names(make: MakePipeline) -> None:
    """New: two fields of one enum, which our schema has under the same name."""
    pipeline = make(registry={"new_fields": "add"})
    colour = {"type": "enum", "name": "Colour", "symbols": ["RED", "BLUE"]}
    old = record(ID, AMOUNT, {"name": "one", "type": colour})
    pipeline.topic.schema_path.write_text(json.dumps(old))
    new = record(
        *(ID, AMOUNT, {"name": "one", "type": colour}),
        {"name": "two", "type": ["Colour", "null"], "default": "RED"},
        {"name": "three", "type": {"type": "array", "items": "Colour"}},
    )
    register(pipeline.topic, old)
    register(pipeline.topic, new)
    pipeline.send(event("a", 1, one="RED"))
    pipeline.drain()

    [row] = pipeline.rows()
    assert (row.one, row.two, row.three) == ("RED", None, None)
