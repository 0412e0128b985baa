"""How a batch's rows get into the output topic: by Spark's own Kafka sink, each sent once."""

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
    return send(records, topic, UNACKNOWLEDGED)
