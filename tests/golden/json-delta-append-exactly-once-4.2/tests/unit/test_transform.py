"""Tests of your own step, on rows of your own. This file is yours: updates leave it alone."""

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from pyspark.sql import DataFrame, SparkSession

from orders_pipeline.decoding import decode_records
from orders_pipeline.rows import accepted_rows
from orders_pipeline.schema import read_schema
from orders_pipeline.settings import load
from orders_pipeline.shapes import COORDINATES, RECORDS
from orders_pipeline.spark import start_session
from orders_pipeline.transform import transform


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    session = start_session("tests", master="local[1]")
    yield session
    session.stop()


def rows_of(spark: SparkSession, topic: str, *values: str) -> DataFrame:
    """Rows as transform gets them, from values as they stand in the topic."""
    settings = load().topic_settings(topic)
    now = datetime(2026, 1, 1, tzinfo=UTC)
    records = [
        (topic, 0, offset, now, b"key", value.encode(), None) for offset, value in enumerate(values)
    ]
    sent = spark.createDataFrame(records, RECORDS)
    return accepted_rows(decode_records(sent, settings, read_schema(settings)))


@pytest.mark.parametrize("topic", load().topics)
def test_transform_keeps_the_coordinates(spark: SparkSession, topic: str) -> None:
    columns = transform(topic, rows_of(spark, topic)).columns
    assert set(COORDINATES.fieldNames()) <= set(columns)
