"""How a batch's rows get into the output topic: by Spark's own Kafka sink, each sent once."""

from collections.abc import Iterator

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame

from . import positions
from .batch import Batch, Written
from .sending import send
from .settings import Topic

UNACKNOWLEDGED = {
    "kafka.acks": "0",
    "kafka.enable.idempotence": "false",
    "kafka.retries": "0",
}
"""A record leaves this machine once; whether it arrives is not known."""


def produce(records: DataFrame, batch: Batch, topic: Topic) -> Written:
    """Sends the *output records* (``sink.py``) of a batch; of what a broker loses nobody hears.

    Raises:
        BatchError: not all could be sent; those that were are there.
    """
    positions.note(batch, topic)  # before: who goes on there with a new checkpoint repeats none
    return send(records.mapInArrow(_once, records.schema), topic, UNACKNOWLEDGED)


def _once(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """A cluster starts a task that failed again: the first may have sent what this one would."""
    context = TaskContext.get()
    if context and context.attemptNumber() > 0:
        raise RuntimeError("at-most-once: a task before this one may have sent these records")
    return batches
