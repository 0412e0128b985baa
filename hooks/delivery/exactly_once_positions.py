"""What makes a replay safe: the brokers know up to where a topic's rows are in its output topic."""

from pyspark.sql import SparkSession

from . import positions
from .batch import Batch, Refused
from .positions import Position
from .replays import check_schema
from .settings import Topic

AFTER_A_FAILURE = "start again: the batch is done again"
"""What to do once the cause of a failed batch is mended."""


def was_written(batch: Batch, topic: Topic, spark: SparkSession) -> bool:
    """True when earlier runs sent all of this batch and stopped before Spark had committed it.

    Where they sent a part of it, the write goes on from there.

    Raises:
        RefusedError: see ``replays.check_schema``, of any part of the batch.
    """
    held = positions.held(topic, batch)
    for position in held.values():
        if position.batch == batch.id:
            check_schema(position.schema, batch, topic)
    return not positions.behind(held, batch)


def refused_before(batch: Batch, topic: Topic) -> list[Refused]:
    """The rows that were not sent of this batch, which earlier runs finished."""
    return refused_by(batch, positions.held(topic, batch))


def refused_by(batch: Batch, held: dict[int, Position]) -> list[Refused]:
    """The rows of the batch that were not sent, as these positions have it."""
    return [
        row
        for partition, position in held.items()
        if position.batch == batch.id
        for row in as_refused(partition, position.refused)
    ]


def as_refused(partition: int, reasons: dict[str, list[int]]) -> list[Refused]:
    """The rows of a source partition that ``Position.refused`` names."""
    return [Refused(partition, offset, why) for why, found in reasons.items() for offset in found]
