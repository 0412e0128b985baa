"""A topic's schema that changes in the registry: what is not read or cannot be read."""

import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from prometheus_client import REGISTRY

from orders_pipeline import compatibility, doctor
from orders_pipeline.errors import RefusedError
from orders_pipeline.settings import KafkaSettings, RegistrySettings, Topic

from tests.support.pipeline import DDL, MakePipeline, Pipeline, event
from tests.support.records import encode, schema_text


def register(topic: Topic, schema: str) -> None:
    """Makes it the newest version of the topic's schema."""
    client = SchemaRegistryClient({"url": topic.settings.registry.url})
    text = schema_text(schema)
    client.register_schema(f"{topic.name}-value", Schema(text, "PROTOBUF"))


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


VERSIONS = {
    "FULL": "note STRING, id STRING NOT NULL, amount INT NOT NULL",
    "BACKWARD": f"{DDL}, more STRING NOT NULL",
    "FORWARD": "id STRING NOT NULL, note STRING",
    "NONE": "id STRING NOT NULL, amount STRING NOT NULL, note STRING",
}
"""What the registry's newest version is, for each word: ours has id, amount and note."""


@pytest.mark.parametrize("word", ["FULL", "BACKWARD"])
def test_version_that_can_be_read_passes_with_its_word(
    make: MakePipeline, capsys: pytest.CaptureFixture[str], word: str
) -> None:
    pipeline = make()
    register(pipeline.topic, VERSIONS[word])
    assert compatibility.compare(pipeline.topic).startswith(f"{word} with version 2")
    assert doctor.examine(pipeline.spark, pipeline.settings)
    said = capsys.readouterr().out
    assert f"ok    compatibility: {word} with version 2" in said
    assert (".proto: more" in said) == (word == "BACKWARD")


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
    assert not doctor.examine(pipeline.spark, settings, schemas_only=True)
    assert f"FAIL  compatibility: {word}" in capsys.readouterr().out


def test_check_of_the_schemas_fails_when_no_registry_answers(
    make: MakePipeline, capsys: pytest.CaptureFixture[str]
) -> None:
    pipeline = make()
    nobody = {"registry": RegistrySettings(url="http://localhost:1", timeout_s=1)}
    settings = pipeline.settings.model_copy(update=nobody)
    assert not doctor.examine(pipeline.spark, settings, schemas_only=True)
    assert "FAIL  compatibility: No answer" in capsys.readouterr().out
