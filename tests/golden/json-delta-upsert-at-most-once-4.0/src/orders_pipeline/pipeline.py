"""What happens to a batch of records, and in what order.

``streams.py`` calls ``ingest`` for each batch that Spark plans. Spark commits the batch when
``ingest`` returns; if the process dies before that, Spark hands the same records over again at the
next start, with the same batch id, and they are given up: no step below is done twice.
"""

import time

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from . import breaker, dead_letters, delivery, kafka, metrics, sink
from .batch import Balance, Batch, Letters
from .checkpoint import Checkpoint
from .counting import every, observe, outcomes
from .decoding import decode_records, decode_rejected
from .rejects import start_keeping
from .rows import accepted_rows
from .settings import Topic
from .transform import transform


def ingest(records: DataFrame, batch: Batch, topic: Topic, fields: StructType) -> None:
    """Takes one batch from Kafka into the table.

    Columns: *records* (``shapes.py``); ``fields`` is the schema of their values.

    Raises:
        BatchError: the batch could not be finished; it is given up at the next start.
        RefusedError: to give it up would give up records that were never attempted.
        BreakerTripped: the batch is complete, but too many of its records were rejected.
    """
    started = time.monotonic()

    # 1. The attempt, on record before any effect.
    checkpoint = Checkpoint(records.sparkSession, topic.checkpoint, topic.name)
    if not delivery.is_first_attempt(batch, checkpoint):
        given_up = delivery.give_up(records, batch, topic)
        balance = Balance(
            batch.id, given_up, written=0, dead_lettered=0, filtered=0, skipped=given_up
        )
        metrics.publish(balance, topic.name, seconds=time.monotonic() - started)
        return

    # 2. The good rows, in one commit.
    kept = start_keeping(records.sparkSession, topic)
    counted, read = observe(records, read=every())
    decoded, found = observe(decode_records(counted, topic, fields, kept), **outcomes())
    done = sink.write(transform(topic.name, accepted_rows(decoded)), batch, topic)

    # 3. The dead letters. They were kept aside in the first reading; where they were too many, this
    #    is the second.
    letters = Letters()
    if count := found.get["rejected"]:
        rejected = decode_rejected(records, topic, fields, kept, count)
        letters = dead_letters.send(rejected, batch, topic)

    # 4. What others see of it: progress for lag tools, and where every record went.
    kafka.publish_progress(topic.settings, topic.name, batch.ends)
    balance = Balance.of(batch, read.get, found.get, done, letters)
    metrics.publish(balance, topic.name, seconds=time.monotonic() - started)

    # 5. A wrong schema costs one batch of dead letters, not a topic of them.
    breaker.check(balance, topic)
