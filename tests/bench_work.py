"""What the contenders of ``make bench`` share: the records, the clock, a line of the table."""

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.streaming.listener import (
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from running import Repository

DDL = (
    "id BIGINT NOT NULL, occurred_at TIMESTAMP NOT NULL, customer STRING, amount DOUBLE, "
    "quantity INT, note STRING"
)
VALUE_BYTES = 160
PARTITIONS = 2
COORDINATES = ["topic AS _topic", "partition AS _partition", "offset AS _offset"]
RUNS = 2


class Result(NamedTuple):
    """A line of the table."""

    what: str
    ours: str
    beside: str
    ratio: str
    reach: str


@dataclass
class Stopwatch(StreamingQueryListener):
    """Adds up the time that batches take."""

    seconds: float = 0

    def onQueryStarted(self, event: QueryStartedEvent) -> None: ...

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        self.seconds += event.progress.batchDuration / 1000

    def onQueryIdle(self, event: Any) -> None: ...

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None: ...


def compared(contenders: dict[str, Callable[[], float]]) -> dict[str, float]:
    """Each contender's seconds in its last run; they take turns."""
    seconds: dict[str, float] = {}
    for nth in range(1, RUNS + 1):
        for name, run in contenders.items():
            seconds[name] = run()
            say(f"  {name}, run {nth} of {RUNS}: {seconds[name]:.1f} s")
    return seconds


def against(what: str, records: int, ours: float, theirs: float, name: str, reach: float) -> Result:
    """A line for two times of the same work."""
    return Result(
        what,
        f"{records / ours:,.0f} rows/s",
        f"{name} {records / theirs:,.0f} rows/s",
        f"{theirs / ours:.2f} x",
        f"{reach:g} x",
    )


def plain_rows(spark: SparkSession, broker: str, topic: str, batch: int) -> DataFrame:
    """The stream of a topic's rows as people write it, with nothing set."""
    spark.conf.set("spark.sql.adaptive.enabled", "true")  # Spark's default; a product turns it off
    return (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", broker)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", batch)
        .load()
        .withColumn("record", F.from_json(F.col("value").cast("string"), DDL))
        .selectExpr("record.*", *COORDINATES, "timestamp AS _timestamp")
    )


def newest_of_batch(rows: DataFrame) -> DataFrame:
    """Of each ``id`` the row with the highest offset, as the textbook has it."""
    by_key = Window.partitionBy("id").orderBy(F.col("_offset").desc())
    return rows.withColumn("nth", F.row_number().over(by_key)).where("nth = 1").drop("nth")


def produce(
    repository: Repository, broker: str, topic: str, count: int, keys: int, bad_every: int
) -> None:
    """Fills a topic: ``count`` records, the keys in no order; one in ``bad_every`` is cut off."""
    say(f"sending {count:,} records to the topic {topic}")

    def records() -> Iterator[tuple[bytes, bytes, None, int]]:
        for n in range(count):
            key = n * 7919 % keys
            value = b'{"id":%d,"occurred_at":"2026-01-%02dT%02d:%02d:%02d.%03dZ",' % (
                *(key, n % 28 + 1, n % 24, n % 60, n // 60 % 60, n % 1000),
            )
            value += b'"customer":"customer-%d","amount":%d.%02d,"quantity":%d,"note":"' % (
                *(key % 5000, n % 1000, n % 100, n % 12),
            )
            value += b"n" * (VALUE_BYTES - len(value) - 2) + b'"}'
            cut = bad_every and n % bad_every == 0
            yield b"%d" % key, value[:-1] if cut else value, None, key % PARTITIONS

    support = repository.support("topics")
    support.create_topic(broker, topic, PARTITIONS)
    support.produce(broker, topic, records())


def say(line: str) -> None:
    """Tells what is going on, beside the table."""
    print(line, file=sys.stderr, flush=True)
