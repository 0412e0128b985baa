"""What a replay does: it writes the batch again. No record is lost, some may repeat."""

import json
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from . import table
from .batch import Batch

AFTER_A_FAILURE = "start again: the batch is done again"
"""What to do once the cause of a failed batch is mended."""


@contextmanager
def commit_of(batch: Batch, spark: SparkSession) -> Iterator[None]:
    """Every Delta commit made inside is labelled as this batch's, for the table's history."""
    spark.conf.set(table.LABEL, json.dumps(batch.label()))
    try:
        yield
    finally:
        spark.conf.unset(table.LABEL)
