"""What a batch's Delta commit carries: a label, for the table's history."""

import json
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from .batch import Batch

LABEL = "spark.databricks.delta.commitInfo.userMetadata"
"""The setting that puts a label on the commits of a session."""


@contextmanager
def commit_of(batch: Batch, spark: SparkSession) -> Iterator[None]:
    """Every Delta commit made inside is labelled as this batch's."""
    spark.conf.set(LABEL, json.dumps(batch.label()))
    try:
        yield
    finally:
        spark.conf.unset(LABEL)
