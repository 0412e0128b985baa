"""How a batch's rows get into the output topic: by Spark's own Kafka sink, each sent once."""

from pyspark.sql import DataFrame

from . import positions
from .batch import Batch, Written
from .sending import UNACKNOWLEDGED, send
from .settings import Topic


def produce(records: DataFrame, batch: Batch, topic: Topic) -> Written:
    """Sends the *output records* (``sink.py``) of a batch; of what a broker loses nobody hears.

    Raises:
        BatchError: not all could be sent; those that were are there.
    """
    done = send(records, topic, UNACKNOWLEDGED)
    positions.note(batch, topic)
    return done
