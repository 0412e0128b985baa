"""What the other lake sinks do in a second, beside what people write, each in its own process.

parquet          ``from_json`` and Spark's own stream of Parquet files: it leaves out no bad record,
                 and a reader that does not know its log sees the files of a batch that failed
iceberg append   ``from_json`` and Iceberg's own append stream
iceberg upsert   ``from_json``, then in ``foreachBatch``: persist, ``row_number`` over the key, keep
                 the first, MERGE with update all and insert all: no deletes, and an older record
                 wins over a newer one that an earlier batch brought

Iceberg is for another Spark than the default one, so its process has another Python environment.
"""

import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from bench_work import (
    DDL,
    Result,
    Stopwatch,
    against,
    compared,
    newest_of_batch,
    plain_rows,
    produce,
)
from rendering import render
from running import Repository, python_for, render_to_run

UPSERT = {"write_mode": "upsert", "key_columns": ["id"]}
MEASURED: dict[str, dict[str, Any]] = {
    "Parquet append": {"sink": "parquet"},
    "Iceberg append": {"sink": "iceberg"},
    "Iceberg upsert": {"sink": "iceberg", **UPSERT},
}
BATCHES = 4


def measure_lake(records: int) -> Iterator[Result]:
    """A line for each sink and write mode."""
    for name, answers in MEASURED.items():
        with tempfile.TemporaryDirectory(prefix="bench-") as made:
            python = python_for(render(Path(made) / "for-its-python", **answers))
            command = [python, __file__, name, str(records)]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        ours, theirs = json.loads(done.stdout.splitlines()[-1])
        what = f"JSON to {name}, exactly-once, dead letters, balance"
        yield against(what, records, ours, theirs, "plain Spark", 0)._replace(reach="")


class LakeBench:
    """A product and what people write, on the same topic, each into a table of its own."""

    def __init__(self, product: Repository, broker: str, folder: Path, records: int) -> None:
        self._product, self._broker, self._folder, self._records = product, broker, folder, records
        self._runs = 0
        start_session = product.module("spark").start_session
        self._spark: SparkSession = start_session("bench", master="local[*]")
        self._watch = Stopwatch()

    def ours(self) -> float:
        """The seconds that the product's batches take."""
        folder, kafka = self._new_folder(), {"max_offsets_per_trigger": self._records // BATCHES}
        settings = self._product.settings(folder, self._broker, "good", DDL, kafka=kafka)
        self._spark.streams.addListener(self._watch)
        self._product.module("streams").run(self._spark, settings, threading.Event(), rebind=[])
        self._spark.streams.removeListener(self._watch)
        topic = settings.topic_settings("good")
        return self._checked(self._product.module("table").read(self._spark, topic))

    def plain(self, name: str) -> float:
        """The seconds of what people write."""
        spark, folder = self._spark.newSession(), self._new_folder()
        rows = plain_rows(spark, self._broker, "good", self._records // BATCHES)
        if name != "Parquet append":  # every Iceberg table has a `_partition` of its own
            rows = rows.withColumnRenamed("_partition", "_kafka_partition")
        table = f"book_{self._runs}.bench.rows"
        writer = rows.writeStream.trigger(availableNow=True)
        writer = writer.option("checkpointLocation", f"{folder}/state")
        spark.streams.addListener(self._watch)
        if name == "Parquet append":
            table = f"parquet.`{folder}/table`"
            query = writer.format("parquet").start(f"{folder}/table")
        else:
            _make_iceberg(spark, f"book_{self._runs}", table, rows, folder)
            if name == "Iceberg append":
                query = writer.toTable(table)
            else:
                query = writer.foreachBatch(lambda batch, _: _merge(batch, table)).start()
        query.awaitTermination()
        spark.streams.removeListener(self._watch)
        return self._checked(spark.table(table))

    def _checked(self, table: DataFrame) -> float:
        held = table.count()
        assert held in (self._records, self._records // 10), held
        seconds, self._watch.seconds = self._watch.seconds, 0
        return seconds

    def _new_folder(self) -> Path:
        self._runs += 1
        return self._folder / f"run-{self._runs}"


def _make_iceberg(
    spark: SparkSession, catalog: str, table: str, rows: DataFrame, folder: Path
) -> None:
    key = f"spark.sql.catalog.{catalog}"
    spark.conf.set(key, "org.apache.iceberg.spark.SparkCatalog")
    spark.conf.set(f"{key}.type", "hadoop")
    spark.conf.set(f"{key}.warehouse", f"{folder}/warehouse")
    columns = ", ".join(f"{column.name} {column.dataType.simpleString()}" for column in rows.schema)
    spark.sql(
        f"CREATE TABLE {table} ({columns}) USING iceberg TBLPROPERTIES ('format-version'='2')"
    )


def _merge(batch: DataFrame, table: str) -> None:
    batch = batch.persist()
    newest_of_batch(batch).createOrReplaceTempView("newest")
    batch.sparkSession.sql(
        f"MERGE INTO {table} AS held USING newest ON held.id = newest.id "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    batch.unpersist()


def _measure(name: str, records: int) -> tuple[float, float]:
    os.environ["PIPELINE_CONF"] = os.devnull
    with tempfile.TemporaryDirectory(prefix="bench-") as made:
        folder = Path(made)
        product = render_to_run(folder, "bench-tables", **MEASURED[name])
        with product.support("broker").start_broker() as running:
            broker = running.bootstrap_servers
            produce(product, broker, "good", records, records // 10, bad_every=0)
            bench = LakeBench(product, broker, folder, records)
            contenders = {"plain Spark": lambda: bench.plain(name), "product": bench.ours}
            seconds = compared(contenders)
    return seconds["product"], seconds["plain Spark"]


if __name__ == "__main__":
    print(json.dumps(_measure(sys.argv[1], int(sys.argv[2]))))
