"""What makes a replay safe: the brokers know up to where a topic's rows are in its output topic."""

from pyspark.sql import SparkSession

from . import positions
from .batch import Batch, Refused
from .replays import check_same
from .settings import Topic

AFTER_A_FAILURE = "start again: the batch is done again"
"""What to do once the cause of a failed batch is mended."""


def was_written(batch: Batch, topic: Topic, spark: SparkSession) -> bool:
    """True when earlier runs sent all of this batch and stopped before Spark had committed it.

    Where they sent a part of it, the write goes on from there.

    Raises:
        RefusedError: see ``replays.check_same``; any part of the batch was sent under another
            schema.
    """
    held = positions.held(topic, batch.pipeline)
    for position in held.values():
        if position.batch == batch.id:
            check_same({**batch.label(), "schema": position.schema}, batch, topic)
    return not positions.behind(held, batch)


def refused_before(batch: Batch, topic: Topic) -> list[Refused]:
    """The rows of this batch, all of which was sent, that were not sent."""
    return positions.refused(batch, positions.held(topic, batch.pipeline))
