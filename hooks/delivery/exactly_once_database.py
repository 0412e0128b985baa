"""What makes a replay safe: the table is asked, before each batch, whether it has it already."""

from pyspark.sql import SparkSession

from . import ledger, table
from .batch import Batch, Refused
from .database import connect, try_again
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


def refused_before(batch: Batch, topic: Topic) -> list[Refused]:
    """The rows that the table refused when it took this batch, which is its newest."""

    def look() -> list[Refused]:
        with connect(topic) as connection:
            return ledger.refused_of(connection, topic, batch.pipeline)

    return try_again(look)
