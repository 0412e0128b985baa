"""What makes a replay safe: the table is asked, before each batch, whether it has it already."""

from pyspark.sql import SparkSession

from . import catalog, table
from .batch import Batch
from .replays import check_follows, check_same
from .settings import Topic

AFTER_A_FAILURE = "start again: the batch is done again"
"""What to do once the cause of a failed batch is mended."""


def was_written(batch: Batch, topic: Topic, spark: SparkSession) -> bool:
    """True when an earlier run wrote this batch and stopped before Spark had committed it.

    Not where the label has expired: what is written again then changes nothing (``sink.py``).

    Raises:
        RefusedError: see ``replays``.
    """
    held = catalog.load(spark, topic)
    label = table.label_in(held, batch.pipeline)
    if label is None and table.may_forget(held, batch.pipeline):
        return False
    if label is None or label["batch"] < batch.id:
        check_follows(label["batch"] if label else None, batch, topic)
        return False
    check_same(label, batch, topic)
    return True
