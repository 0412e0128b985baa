"""What a decoder costs: a topic read and decoded, beside the same topic read and not decoded.

Each decoder runs in a process of its own, since the tests of all repositories have one name; in it
the two take turns, and the last run counts. Nothing is written: the rows go to Spark's ``noop``.
The records are samples of the default schema, as ``make demo`` makes them, over and over.

Its processes are started by ``bench.py``, and print a line of JSON.
"""

import itertools
import json
import os
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

RUNS = 3
DIFFERENT = 100_000
REACH = {"avro": 0.7, "protobuf": 0.9}
"""Of the read's rows a second, those to reach decoded."""


class Cost(NamedTuple):
    """Seconds for all records of a topic, and how many bytes a value has on average."""

    value_format: str
    schema_registry: str
    decoded_s: float
    raw_s: float
    value_bytes: float


def measure_formats(records: int) -> Iterator[Cost]:
    """Each decoder of the matrix, one process after another."""
    for value_format, registry in itertools.product(
        choices("value_format"), choices("schema_registry")
    ):
        command = [sys.executable, __file__, value_format, registry, str(records)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        yield Cost(*json.loads(done.stdout.splitlines()[-1]))


def _measure(value_format: str, schema_registry: str, records: int) -> Cost:
    with ExitStack() as until_done:
        folder = Path(until_done.enter_context(tempfile.TemporaryDirectory(prefix="bench-")))
        answers = {"value_format": value_format, "schema_registry": schema_registry}
        repository = render_to_run(folder, "bench-format", **answers)
        os.chdir(repository.path)
        if schema_registry != "none":
            registry = until_done.enter_context(repository.support("registry").start_registry())
            os.environ["PIPELINE_REGISTRY__URL"] = registry.url
        broker = until_done.enter_context(repository.support("broker").start_broker())
        os.environ["PIPELINE_KAFKA__BOOTSTRAP_SERVERS"] = broker.bootstrap_servers
        spark = repository.module("spark").start_session("bench", master="local[*]")
        topic = repository.module("settings").load().topic_settings("orders")
        fields = repository.module("schema").read_schema(topic)
        value_bytes = _produce(repository, broker.bootstrap_servers, topic, fields, records)
        kafka = repository.module("kafka")
        end = kafka.offsets_at(topic.settings, topic.name, kafka.LATEST)

        def read() -> Any:
            return repository.module("source").read_range(spark, topic.settings, "orders", {}, end)

        def decode() -> Any:
            return repository.module("decoding").Decoder(spark, topic, fields).decode(read())

        for _ in range(RUNS):
            raw_s, decoded_s = _seconds(read), _seconds(decode)
        spark.stop()
    return Cost(value_format, schema_registry, decoded_s, raw_s, value_bytes)


def _produce(repository: Repository, broker: str, topic: Any, fields: Any, records: int) -> float:
    """Fills the topic; returns the average size of a value."""
    topics = repository.support("topics")
    made = list(repository.support("events").good_records(fields, topic, min(DIFFERENT, records)))
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
