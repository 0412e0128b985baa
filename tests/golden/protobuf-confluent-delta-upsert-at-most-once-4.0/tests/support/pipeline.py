"""Runs the pipeline on topics and tables of a test's own, in this process."""

import threading
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import Row, SparkSession

from orders_pipeline import streams
from orders_pipeline.batch import Balance
from orders_pipeline.settings import Settings, Topic

from scripts.compile_protos import compile_proto

from .records import encode, schema_text
from .tables import read_table
from .topics import Record, create_topic, produce, read_topic

DDL = "id STRING NOT NULL, amount INT NOT NULL, note STRING"
"""What the tests' records hold: {"id": "a", "amount": 1}. Your own schema has no part in them."""
CUT_OFF = object()
"""Stands for a value that cannot be decoded: a good one without its last byte."""


@dataclass
class Pipeline:
    """A pipeline with one topic, which is there and empty, and a table, which is not there yet."""

    spark: SparkSession
    settings: Settings
    balances: list[Balance]
    """What each batch came to, in order."""

    @property
    def topic(self) -> Topic:
        return self.settings.topic_settings(self.settings.topics[0])

    @property
    def bootstrap_servers(self) -> str:
        return self.settings.kafka.bootstrap_servers

    def send(self, *records: tuple[Any, ...], topic: str | None = None) -> None:
        """Writes records to the topic, or to another of the pipeline's: see ``encoded``."""
        chosen = self.settings.topic_settings(topic) if topic else self.topic
        produce(self.bootstrap_servers, chosen.name, (encoded(chosen, each) for each in records))

    def drain(self, rebind: bool = False) -> None:
        """Runs until all that is in the topic is read, as ``run`` does with availableNow."""
        accepted = self.settings.topics if rebind else []
        streams.run(self.spark, self.settings, threading.Event(), accepted)

    def write_schema(self, ddl: str) -> None:
        """Changes the schema of the topic's records."""
        write_schema(self.topic, ddl)

    def rows(self) -> list[Row]:
        """The table, in the order of its coordinates."""
        return read_table(self.spark, self.topic)

    def letters(self) -> list[Record]:
        """The dead letters, in their order."""
        return read_topic(self.bootstrap_servers, self.topic.dead_letters)


def make_pipeline(
    spark: SparkSession, bootstrap_servers: str, folder: Path, **settings: Any
) -> Pipeline:
    """A pipeline under ``folder`` with a topic of its own; ``settings`` change its settings."""
    topics = settings.pop("topics", [f"events-{uuid.uuid4().hex[:12]}"])
    schemas = folder / "schemas"
    schemas.mkdir(exist_ok=True)
    for topic in topics:
        create_topic(bootstrap_servers, topic, partitions=2)
    general: dict[str, Any] = {
        "name": f"test-{uuid.uuid4().hex[:12]}",
        "topics": topics,
        "trigger": "availableNow",
        "checkpoint_location": str(folder / "checkpoints"),
        "schemas": schemas,
        "kafka": {"bootstrap_servers": bootstrap_servers},
        "table": {
            "location": str(folder / "tables"),
            "key_columns": ["id"],
            "key_format": "string",
        },
    }
    for name, value in settings.items():
        both = isinstance(value, dict) and isinstance(general.get(name), dict)
        general[name] = general[name] | value if both else value
    made = Pipeline(spark, Settings(**general), [])
    for name in topics:
        topic = made.settings.topic_settings(name)
        write_schema(topic, DDL)
        encode(topic, {"id": "x", "amount": 0})  # which registers the schema
    return made


def write_schema(topic: Topic, ddl: str) -> None:
    """Writes the topic's schema file for these columns, and compiles it."""
    topic.schema_path.write_text(schema_text(ddl))
    assert compile_proto(topic.schema_path) is None


def require_nothing(topic: Topic) -> None:
    """Writes the topic's schema anew as its producers have it: no field is required there."""
    text = topic.schema_path.read_text().replace("proto2", "proto3").replace("required ", "")
    topic.schema_path.write_text(text)
    assert compile_proto(topic.schema_path) is None


def event(key: str, amount: int, partition: int = 0, **fields: Any) -> tuple[Any, ...]:
    """A good record for ``Pipeline.send``."""
    return (key.encode(), {"id": key, "amount": amount, **fields}, [], partition)


def bad(key: str, partition: int = 0) -> tuple[Any, ...]:
    """A record that cannot be decoded."""
    return (key.encode(), CUT_OFF, [], partition)


def encoded(topic: Topic, record: tuple[Any, ...]) -> tuple[Any, ...]:
    """A record as ``topics.produce`` takes it: a value given as fields is bytes, others are so."""
    key, value, *rest = record
    if value is CUT_OFF:
        value = encode(topic, {"id": "x", "amount": 0})[:-1]
    elif isinstance(value, dict):
        value = encode(topic, value)
    return (key, value, *rest)


MakePipeline = Callable[..., Pipeline]
