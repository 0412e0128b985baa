"""What a database sink does in a second, beside the textbook's, in one Spark session.

postgres   the textbook's ``foreachBatch``: persist, ``row_number`` over the key, keep the first,
           Spark's JDBC writer into a staging table with ``reWriteBatchedInserts``, then one INSERT
           … ON CONFLICT: no deletes, no ledger, and an older record wins over a newer one that an
           earlier batch brought
"""

import os
import threading
import time
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql
from pyspark.sql import DataFrame, SparkSession

from bench_work import newest_of_batch, plain_rows
from running import Repository, end_session, jars_of

JDBC = {"org": "org.postgresql", "name": "postgresql", "rev": "42.7.7", "transitive": "false"}


class PostgresBench:
    """A product and the textbook on the same topic, each into a table of its own."""

    def __init__(self, product: Repository, broker: str, folder: Path, ddl: str) -> None:
        """*product* is an upsert by ``id`` into PostgreSQL, whose records are of *ddl*."""
        self.product, self._broker, self._folder, self._ddl = product, broker, folder, ddl
        self._runs = 0
        self._starting = product.support("database").start_database()

    def __enter__(self) -> "PostgresBench":
        self._database = self._starting.__enter__()
        self.settings = self._database.settings
        os.environ["PIPELINE_JARS"] = str(self._jars())
        start_session = self.product.module("spark").start_session
        self.spark: SparkSession = start_session("bench", master="local[*]")
        return self

    def __exit__(self, *raised: Any) -> None:
        end_session(self.spark)
        self._starting.__exit__(*raised)

    def ours(self, topic: str, batch: int, keys: int) -> float:
        """Runs the product over a topic; returns the seconds that it took."""
        self._runs += 1
        settings = self.product.settings(
            self._folder / f"postgres-{self._runs}",
            self._broker,
            topic,
            self._ddl,
            kafka={"max_offsets_per_trigger": batch},
            table={"key_columns": ["id"], "table_name": f"ours_{self._runs}"},
            database=self.settings,
        )
        started = time.monotonic()
        self.product.module("streams").run(self.spark, settings, threading.Event(), rebind=[])
        seconds = time.monotonic() - started
        self._check(f"ours_{self._runs}", keys)
        return seconds

    def textbook(self, topic: str, batch: int, keys: int) -> float:
        """The same as people write it, with Spark's own defaults."""
        self._runs += 1
        spark, name = self.spark.newSession(), f"book_{self._runs}"
        spark.conf.unset("spark.sql.shuffle.partitions")
        rows = plain_rows(spark, self._broker, topic, batch)
        changes = ", ".join(f"{column} = excluded.{column}" for column in rows.columns)
        upsert = f"INSERT INTO {name} SELECT * FROM {name}_staging ON CONFLICT (id) DO UPDATE SET "  # noqa: S608

        def merge(records: DataFrame, batch_id: int) -> None:
            records = records.persist()
            self._written(newest_of_batch(records), f"{name}_staging")
            with psycopg.connect(self._database.url) as connection:
                connection.execute((upsert + changes).encode())
            records.unpersist()

        started = time.monotonic()
        self._written(spark.createDataFrame([], rows.schema), name)
        with psycopg.connect(self._database.url) as connection:
            connection.execute(f"ALTER TABLE {name} ADD PRIMARY KEY (id)".encode())
        state = str(self._folder / f"postgres-{self._runs}")
        writer = rows.writeStream.option("checkpointLocation", state).foreachBatch(merge)
        writer.trigger(availableNow=True).start().awaitTermination()
        seconds = time.monotonic() - started
        self._check(name, keys)
        return seconds

    def _written(self, rows: DataFrame, table: str) -> None:
        found = self.settings
        password = os.environ["PIPELINE_DATABASE_PASSWORD"]
        url = f"jdbc:postgresql://{found['host']}:{found['port']}/{found['name']}"
        (
            rows.write.format("jdbc")
            .option("url", f"{url}?reWriteBatchedInserts=true")
            .options(driver="org.postgresql.Driver", dbtable=table, truncate="true")
            .options(user=found["user"], password=password)
            .mode("overwrite")
            .save()
        )

    def _check(self, table: str, keys: int) -> None:
        with psycopg.connect(self._database.url) as connection:
            count = sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(table))
            [held] = connection.execute(count).fetchone() or [0]
        assert held == keys, f"{held} rows, not {keys}"

    def _jars(self) -> Path:
        """The product's jars, and the JDBC driver that only the textbook needs."""
        tree = ET.parse(self.product.path / "jars.xml")
        dependencies = tree.find("dependencies")
        assert dependencies is not None
        ET.SubElement(dependencies, "dependency", JDBC)
        tree.write(self.product.path / "jars.xml")
        return jars_of(self.product.path)
