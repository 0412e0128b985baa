"""What a decoder costs: a topic read and decoded, beside the same topic read and not decoded.

It is read without decoding in two ways: as plain Spark does, with nothing set; and as the product
does, which fetches more at a time and so has less to hide a decoder's work behind.

Each decoder runs in a process of its own, since the tests of all repositories have one name; in it
the three take turns, and each one's median counts. Nothing is written: the rows go to Spark's
``noop``. The records are samples of the default schema, as ``make demo`` makes them, over and over;
those of a second topic have a text added, which makes them as large as records often are.

Its processes are started by ``bench.py``, and print a line of JSON.
"""

import itertools
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

from rendering import choices
from running import Repository, render_to_run

ROUNDS = 3
DIFFERENT = 100_000
TOPICS = {"orders": 0, "padded": 120}
"""How many bytes of text are added to the records of each topic."""
REACH = {"avro": 0.7, "protobuf": 0.9}
"""Of plain Spark's rows a second, read alone, those to reach decoded."""


class Cost(NamedTuple):
    """Seconds for all records of a topic, and how many bytes a value has on average."""

    value_format: str
    schema_registry: str
    decoded_s: float
    plain_s: float
    """Of a read by plain Spark."""
    read_s: float
    """Of the product's own read."""
    value_bytes: float


def measure_formats(records: int) -> Iterator[Cost]:
    """Each decoder of the matrix, one process after another."""
    for value_format, registry in itertools.product(
        choices("value_format"), choices("schema_registry")
    ):
        command = [sys.executable, __file__, value_format, registry, str(records)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        yield from (Cost(*cost) for cost in json.loads(done.stdout.splitlines()[-1]))


def _measure(value_format: str, schema_registry: str, records: int) -> list[Cost]:
    with ExitStack() as until_done:
        folder = Path(until_done.enter_context(tempfile.TemporaryDirectory(prefix="bench-")))
        repository = render_to_run(
            folder,
            "bench-format",
            value_format=value_format,
            schema_registry=schema_registry,
            topics=list(TOPICS),
        )
        os.chdir(repository.path)
        if schema_registry != "none":
            registry = until_done.enter_context(repository.support("registry").start_registry())
            os.environ["PIPELINE_REGISTRY__URL"] = registry.url
        broker = until_done.enter_context(repository.support("broker").start_broker())
        os.environ["PIPELINE_KAFKA__BOOTSTRAP_SERVERS"] = broker.bootstrap_servers
        spark = repository.module("spark").start_session("bench", master="local[*]")
        costs = [
            _cost(repository, spark, broker.bootstrap_servers, name, added_bytes, records)
            for name, added_bytes in TOPICS.items()
        ]
        spark.stop()
    return [Cost(value_format, schema_registry, *cost) for cost in costs]


def _cost(
    repository: Repository, spark: Any, broker: str, name: str, added_bytes: int, records: int
) -> tuple[float, float, float, float]:
    """The seconds to read the topic decoded, by plain Spark, by the product; a value's bytes."""
    topic = repository.module("settings").load().topic_settings(name)
    fields = repository.module("schema").read_schema(topic)
    value_bytes = _produce(repository, broker, topic, fields, added_bytes, records)
    kafka_topics = repository.module("kafka_topics")
    end = kafka_topics.offsets_at(topic.settings, name, kafka_topics.LATEST)

    def plain() -> Any:
        reader = spark.read.format("kafka").option("kafka.bootstrap.servers", broker)
        return reader.option("subscribe", name).load()

    def read() -> Any:
        return repository.module("source").read_range(spark, topic.settings, name, {}, end)

    def decode() -> Any:
        return repository.module("decoding").Decoder(spark, topic, fields).decode(read())

    rounds = [[_seconds(make) for make in (decode, plain, read)] for _ in range(1 + ROUNDS)]
    decoded_s, plain_s, read_s = map(statistics.median, zip(*rounds[1:], strict=True))
    return decoded_s, plain_s, read_s, value_bytes


def _produce(
    repository: Repository, broker: str, topic: Any, fields: Any, added_bytes: int, records: int
) -> float:
    """Fills the topic; returns the average size of a value."""
    topics, sample = repository.support("topics"), repository.support("samples").sample
    encode, chance = repository.support("records").encode, random.Random(0)
    made = []
    for number in range(min(DIFFERENT, records)):
        value = sample(fields, chance, number)
        if added_bytes:
            value["note"] = "x" * added_bytes
        made.append((f"{topic.name}-{number}".encode(), encode(topic, value)))
    topics.create_topic(broker, topic.name)
    topics.produce(broker, topic.name, itertools.islice(itertools.cycle(made), records))
    return sum(len(value) for _, value in made) / len(made)


def _seconds(make_rows: Callable[[], Any]) -> float:
    """How long it takes until all rows were made."""
    began = time.monotonic()
    make_rows().write.format("noop").mode("overwrite").save()
    return time.monotonic() - began


if __name__ == "__main__":
    print(json.dumps(_measure(sys.argv[1], sys.argv[2], int(sys.argv[3]))))
