"""One broker and one Spark session for all tests; a topic, a table and a checkpoint for each."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from orders_pipeline import backfill, columns, metrics, pipeline
from orders_pipeline.batch import Balance
from orders_pipeline.spark import start_session

from tests.support.broker import Broker, start_broker
from tests.support.database import Database, start_database
from tests.support.pipeline import MakePipeline, Pipeline, make_pipeline


@pytest.fixture(scope="session")
def broker() -> Iterator[Broker]:
    with start_broker() as running:
        yield running


@pytest.fixture(scope="session")
def database() -> Iterator[Database]:
    with start_database() as running:
        yield running


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Says what the tests ran against."""
    if ran := os.environ.get("KAFKA_RAN_IN"):
        terminalreporter.write_line(f"Kafka ran in: {ran}")
    if ran := os.environ.get("DATABASE_RAN_IN"):
        terminalreporter.write_line(f"SQL Server: {ran}")


@pytest.fixture(scope="session")
def spark(database: Database) -> Iterator[SparkSession]:
    session = start_session("tests", master="local[2]")
    # Batches of a few records: to compile code takes longer than they do.
    session.conf.set("spark.sql.codegen.wholeStage", "false")
    session.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")
    session.conf.set("spark.sql.shuffle.partitions", "1")
    yield session
    session.stop()


@pytest.fixture
def make(
    spark: SparkSession,
    broker: Broker,
    database: Database,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> MakePipeline:
    """Makes a pipeline; its balances are kept, and your transform.py is left out."""
    os.environ["KAFKA_RAN_IN"] = broker.runs_in
    for module in (backfill, columns, pipeline):
        monkeypatch.setattr(module, "transform", lambda topic, rows: rows)

    def make(**settings: Any) -> Pipeline:
        settings["database"] = database.settings | settings.get("database", {})
        made = make_pipeline(spark, broker.bootstrap_servers, tmp_path, **settings)
        publish = metrics.publish

        def keep(balance: Balance, topic: str, seconds: float) -> None:
            made.balances.append(balance)
            publish(balance, topic, seconds)

        monkeypatch.setattr(metrics, "publish", keep)
        return made

    return make
