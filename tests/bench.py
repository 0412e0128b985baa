"""`make bench`: what a product does in a second, beside the same work in plain Spark, as ratios.

Everything runs in one process on one topic, each contender twice and in turn; the second run
counts, since a JVM that has just started is half as fast. A run's time is that of its batches, as
Spark's own progress reports give it, not that of starting. A table that is wrong ends the bench.

The contenders read the same records in batches of the same size and write the same columns, the
coordinates among them. What plain Spark does otherwise is what people write, with Spark's and
Delta's own defaults (``spark.sql.shuffle.partitions`` 200, ``snapshotPartitions`` 50, 500 records a
poll):

append   ``from_json`` and Delta's own append stream: no dead letters, no balance, and a record that
         cannot be read becomes a row of nulls
upsert   ``from_json``, then in ``foreachBatch``: persist, ``row_number`` over the key, keep the
         first, MERGE with update all and insert all: no deletes, and an older record wins over a
         newer one that an earlier batch brought
kafka    ``from_json``, ``to_json`` and Spark's own Kafka stream into another topic, at least once:
         no dead letters, no balance, no headers, and rows that repeat after a crash

What a decoder costs, ``bench_formats.py`` measures beside a read that decodes nothing; what a
database costs, ``bench_sinks.py`` beside the textbook.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession

from bench_formats import REACH, measure_formats
from bench_lake import measure_lake
from bench_memory import measure_memory
from bench_sinks import PostgresBench
from bench_work import (
    DDL,
    PARTITIONS,
    VALUE_BYTES,
    Result,
    Stopwatch,
    against,
    compared,
    newest_of_batch,
    plain_rows,
    produce,
    say,
)
from rendering import ROOT
from running import Repository, end_session, render_to_run

UPSERT_BATCHES = 4


@dataclass
class Bench:
    """One broker, one Spark session and what is measured in them."""

    spark: SparkSession
    broker: str
    folder: Path
    records: int
    append: Repository
    upsert: Repository
    keys: int
    _runs: int = field(default=0)

    def ours(self, repository: Repository, topic: str, batch: int) -> float:
        """Runs a product over a topic; returns the seconds that its batches took."""
        folder = self._new_folder()
        kafka = {"max_offsets_per_trigger": batch}
        settings = repository.settings(folder, self.broker, topic, DDL, kafka=kafka)
        watch = Stopwatch()
        self.spark.streams.addListener(watch)
        repository.module("streams").run(self.spark, settings, threading.Event(), rebind=[])
        self._check(settings.topic_settings(topic).location, repository is self.upsert)
        self.spark.streams.removeListener(watch)
        return watch.seconds

    def plain_append(self, topic: str, batch: int) -> float:
        """The same into a table by Delta's own stream, with nothing set."""
        spark, folder = self.spark.newSession(), self._new_folder()
        rows = plain_rows(spark, self.broker, topic, batch)
        writer = rows.writeStream.format("delta").option("checkpointLocation", f"{folder}/state")
        return self._drained(spark, writer.option("path", f"{folder}/table"), folder, False)

    def plain_upsert(self, topic: str, batch: int) -> float:
        """The textbook's ``foreachBatch``, with nothing set."""
        spark, folder = self.spark.newSession(), self._new_folder()
        rows = plain_rows(spark, self.broker, topic, batch)
        DeltaTable.create(spark).location(f"{folder}/table").addColumns(rows.schema).execute()

        def merge(records: DataFrame, batch_id: int) -> None:
            records = records.persist()
            (
                DeltaTable.forPath(records.sparkSession, f"{folder}/table")
                .alias("held")
                .merge(newest_of_batch(records).alias("row"), "held.id = row.id")
                .whenMatchedUpdateAll()
                .whenNotMatchedInsertAll()
                .execute()
            )
            records.unpersist()

        writer = rows.writeStream.option("checkpointLocation", f"{folder}/state")
        return self._drained(spark, writer.foreachBatch(merge), folder, True)

    def to_kafka(self, repository: Repository, topic: str, batch: int) -> float:
        """A product over a topic into another, in transactions."""
        spark, folder = self.spark.newSession(), self._new_folder()
        kafka = {"max_offsets_per_trigger": batch}
        table = {"topic_name": f"{topic}-{folder.name}"}
        settings = repository.settings(folder, self.broker, topic, DDL, kafka=kafka, table=table)
        watch = Stopwatch()
        self.spark.streams.addListener(watch)
        spark.streams.addListener(watch)
        repository.module("streams").run(spark, settings, threading.Event(), rebind=[])
        self._check_sent(table["topic_name"])
        spark.streams.removeListener(watch)
        self.spark.streams.removeListener(watch)
        return watch.seconds

    def plain_kafka(self, topic: str, batch: int) -> float:
        """The same by Spark's own stream."""
        spark, folder = self.spark.newSession(), self._new_folder()
        name = f"{topic}-{folder.name}"
        self.append.support("topics").create_topic(self.broker, name, PARTITIONS)
        rows = plain_rows(spark, self.broker, topic, batch)
        rows = rows.selectExpr("to_json(struct(*)) AS value")
        writer = rows.writeStream.format("kafka").option("topic", name)
        writer = writer.option("kafka.bootstrap.servers", self.broker)
        writer = writer.option("checkpointLocation", f"{folder}/state")
        watch = Stopwatch()
        spark.streams.addListener(watch)
        writer.trigger(availableNow=True).start().awaitTermination()
        self._check_sent(name)
        spark.streams.removeListener(watch)
        return watch.seconds

    def _check_sent(self, topic: str) -> None:
        read = self.spark.read.format("kafka").option("kafka.bootstrap.servers", self.broker)
        read = read.option("kafka.isolation.level", "read_committed").option("subscribe", topic)
        held = read.load().count()
        assert held == self.records, f"{held} records, not {self.records}"

    def _drained(self, spark: SparkSession, writer: Any, folder: Path, upsert: bool) -> float:
        watch = Stopwatch()
        spark.streams.addListener(watch)
        writer.trigger(availableNow=True).start().awaitTermination()
        self._check(f"{folder}/table", upsert)
        spark.streams.removeListener(watch)
        return watch.seconds

    def _check(self, table: str, upsert: bool) -> None:
        held = self.spark.read.format("delta").load(table).count()
        expected = self.keys if upsert else self.records
        assert held in (expected, expected - self.records // 100), f"{held} rows, not {expected}"

    def _new_folder(self) -> Path:
        self._runs += 1
        return self.folder / f"run-{self._runs}"


def measure_spark(bench: Bench) -> Iterator[Result]:
    """Append with and without bad records, upsert, each beside its contender."""
    records, batch = bench.records, min(bench.records, 1_000_000)
    say(f"append: {records:,} records of {VALUE_BYTES} bytes, batches of {batch:,}")
    seconds = compared(
        {
            "plain Spark": lambda: bench.plain_append("good", batch),
            "product": lambda: bench.ours(bench.append, "good", batch),
            "product, 1 % bad": lambda: bench.ours(bench.append, "bad", batch),
        }
    )
    ours, plain, bad = (seconds[n] for n in ("product", "plain Spark", "product, 1 % bad"))
    what = "JSON to Delta append, exactly-once, dead letters, balance"
    yield against(what, records, ours, plain, "plain Spark", 1.2)
    yield against("the same with 1 % bad records", records, bad, ours, "none bad", 0.8)

    batch = bench.records // UPSERT_BATCHES
    say(f"upsert: the same records into {bench.keys:,} keys, batches of {batch:,}")
    seconds = compared(
        {
            "textbook": lambda: bench.plain_upsert("good", batch),
            "product": lambda: bench.ours(bench.upsert, "good", batch),
        }
    )
    what = "JSON to Delta upsert, exactly-once, dead letters, balance"
    yield against(what, records, seconds["product"], seconds["textbook"], "textbook", 1.7)


def measure_postgres(bench: PostgresBench, records: int, keys: int) -> Iterator[Result]:
    """Upsert into PostgreSQL, beside its textbook."""
    batch = records // UPSERT_BATCHES
    say(f"PostgreSQL: {records:,} records into {keys:,} keys, batches of {batch:,}")
    seconds = compared(
        {
            "textbook": lambda: bench.textbook("good", batch, keys),
            "product": lambda: bench.ours("good", batch, keys),
        }
    )
    what = "JSON to PostgreSQL upsert, exactly-once, dead letters, balance"
    yield against(what, records, seconds["product"], seconds["textbook"], "textbook", 1.5)


def measure_kafka(bench: Bench, product: Repository) -> Result:
    """From a topic into another, beside Spark's own sink."""
    records, batch = bench.records, min(bench.records, 1_000_000)
    say(f"kafka: {records:,} records of {VALUE_BYTES} bytes, batches of {batch:,}")
    seconds = compared(
        {
            "plain Spark": lambda: bench.plain_kafka("good", batch),
            "product": lambda: bench.to_kafka(product, "good", batch),
        }
    )
    what = "JSON to Kafka append, exactly-once, dead letters, balance"
    theirs = "plain Spark, at least once"
    return against(what, records, seconds["product"], seconds["plain Spark"], theirs, 0.9)


def measure_decoders(records: int) -> Iterator[Result]:
    """A topic read and decoded, in each format, beside the same topic read in two ways."""
    for cost in measure_formats(records):
        source = f"{cost.value_format}, {cost.schema_registry} registry"
        what = f"{source}, {cost.value_bytes:.0f} bytes a value, to no table"
        reach = REACH.get(cost.value_format)
        line = against(what, records, cost.decoded_s, cost.plain_s, "plain Spark, read alone", 0)
        yield line._replace(reach=f"{reach:g} x" if reach else "")
        line = against(what, records, cost.decoded_s, cost.read_s, "the product's read alone", 0)
        yield line._replace(reach="")


def measure_copy(folder: Path) -> Result:
    """A default ``copier copy``, from the process's start to its end; the median of three."""
    command = [sys.executable, "-m", "copier", "copy", "--quiet", "--defaults", "--vcs-ref", "HEAD"]
    times = []
    for nth in range(3):
        started = time.monotonic()
        target = str(folder / f"copy-{nth}")
        subprocess.run([*command, str(ROOT), target], check=True, capture_output=True)
        times.append(time.monotonic() - started)
    return Result("a default copier copy", f"{statistics.median(times):.2f} s", "", "", "1.5 s")


def measure_all_memory(
    bench: Bench, to_kafka: Repository, postgres: PostgresBench, millions: int
) -> Iterator[Result]:
    """What the jobs of four sinks hold, one after another on one topic."""
    count, table = millions * 1_000_000, {"key_columns": ["id"]}
    produce(bench.append, bench.broker, "long", count, bench.keys, bad_every=0)
    for product, what, changes in (
        (bench.append, "Delta append", {}),
        (bench.upsert, "Delta upsert", {}),
        (to_kafka, "Kafka", {}),
        (postgres.product, "PostgreSQL upsert", {"table": table, "database": postgres.settings}),
    ):
        folder = bench.folder / f"memory-{product.package}"
        yield from measure_memory(product, what, bench.broker, folder, "long", millions, **changes)


def told(lines: Iterable[Result]) -> Iterator[Result]:
    """The same lines, each shown as soon as it is known: a bench takes half an hour."""
    for line in lines:
        say("  " + " | ".join(filter(None, line)))
        yield line


def show(results: list[Result]) -> None:
    """Prints the table."""
    head = Result("what", "product", "beside", "ratio", "reach")
    widths = [max(map(len, column)) for column in zip(head, *results, strict=True)]
    for line in (head, *results):
        cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        print("  ".join(cells).rstrip())


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description="Rows a second beside plain Spark, as ratios.")
    parser.add_argument("--records", type=int, default=2_000_000, help="records in the topic")
    parser.add_argument(
        "--memory", type=int, metavar="N", help="also what is held after 1 and N million records"
    )
    options = parser.parse_args()
    os.environ["PIPELINE_CONF"] = os.devnull
    with tempfile.TemporaryDirectory(prefix="bench-") as made:
        folder = Path(made)
        to_kafka = render_to_run(folder, "bench-kafka", sink="kafka")
        append = render_to_run(folder, "bench-append")
        upsert = render_to_run(folder, "bench-upsert", write_mode="upsert", key_columns=["id"])
        postgres = render_to_run(
            folder, "bench-postgres", sink="postgres", write_mode="upsert", key_columns=["id"]
        )
        results = [*told([measure_copy(folder)])]
        with append.support("broker").start_broker() as running:
            broker, keys = running.bootstrap_servers, options.records // 10
            for topic, bad_every in (("good", 0), ("bad", 100)):
                produce(append, broker, topic, options.records, keys, bad_every)
            os.environ["PIPELINE_JARS"] = str(append.jars)
            spark = append.module("spark").start_session("bench", master="local[*]")
            bench = Bench(spark, broker, folder, options.records, append, upsert, keys)
            results += told(measure_spark(bench))
            results += told([measure_kafka(bench, to_kafka)])
            end_session(spark)
            with PostgresBench(postgres, broker, folder, DDL) as database:
                results += told(measure_postgres(database, options.records, keys))
                if options.memory:
                    results += told(measure_all_memory(bench, to_kafka, database, options.memory))
            results += told(measure_lake(options.records))
            results += told(measure_decoders(options.records))
    load = ", ".join(f"{each:.1f}" for each in os.getloadavg())
    print(f"\n{os.cpu_count()} cores; load {load} at the end; Kafka in: {running.runs_in}")
    show(results)


if __name__ == "__main__":
    main()
