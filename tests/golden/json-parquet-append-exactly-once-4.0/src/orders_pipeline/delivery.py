"""What makes a replay safe: the table is asked, before each batch, whether it has it already."""

from pyspark.sql import SparkSession

from . import table
from .batch import Batch
from .replays import check_follows, check_same
from .settings import Topic

AFTER_A_FAILURE = "start again: the batch is done again"
"""What to do once the cause of a failed batch is mended."""


def was_written(batch: Batch, topic: Topic, spark: SparkSession) -> bool:
    """True when an earlier run wrote this batch and stopped before Spark had committed it.

    Raises:
        RefusedError: see ``replays``.
    """
    labels = table.newest_labels(spark, topic)
    label = next((each for each in labels if each["pipeline"] == batch.pipeline), None)
    if label is None or label["batch"] < batch.id:
        check_follows(label["batch"] if label else None, batch, topic)
        return False
    check_same(label, batch, topic)
    return True
