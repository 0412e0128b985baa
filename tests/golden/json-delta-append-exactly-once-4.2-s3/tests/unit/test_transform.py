"""Tests of your own step, on rows of your own. This file is yours: updates leave it alone."""

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from orders_pipeline.names import table_columns
from orders_pipeline.schema import read_schema
from orders_pipeline.settings import load
from orders_pipeline.shapes import COORDINATES
from orders_pipeline.spark import start_session
from orders_pipeline.transform import transform


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    session = start_session("tests", master="local[1]")
    yield session
    session.stop()


def rows_of(spark: SparkSession, topic: str, *records: dict[str, object]) -> DataFrame:
    """Rows as transform gets them, from the fields of your records; one left out is null."""
    fields = table_columns(read_schema(load().topic_settings(topic)))
    now = datetime(2026, 1, 1, tzinfo=UTC)
    columns = StructType([*fields, *COORDINATES])
    rows = [
        (*(record.get(name) for name in fields.names), topic, 0, offset, now)
        for offset, record in enumerate(records)
    ]
    return spark.createDataFrame(rows, columns)


@pytest.mark.parametrize("topic", load().topics)
def test_transform_keeps_the_coordinates(spark: SparkSession, topic: str) -> None:
    columns = transform(topic, rows_of(spark, topic)).columns
    assert set(COORDINATES.fieldNames()) <= set(columns)
