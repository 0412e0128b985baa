"""What happens to a batch of records, in what order, and what stops the query.

``streams.py`` calls ``ingest`` for each batch that Spark plans; when it returns, Spark notes in its
checkpoint that the batch is done. If a crash or an error ends it before that, Spark hands the same
records over again at the next start, under the same batch id, and they are given up: no step below
is done twice, and what was not done by then is missing.

A record that cannot be decoded is not dropped: its own bytes go to the topic's dead-letter topic,
with the reason in the headers. An error stops the query, and ``streams.py`` then stops the others.
"""

import time

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from . import breaker, dead_letters, delivery, kafka, metrics, sink
from .batch import Balance, Batch, Letters
from .checkpoint import Checkpoint
from .counting import every, observe, outcomes
from .decoding import Decoder
from .rows import accepted_rows
from .settings import Topic
from .transform import transform


def ingest(records: DataFrame, batch: Batch, topic: Topic, fields: StructType) -> None:
    """Takes one batch from Kafka into the table.

    ``records`` has the columns that ``shapes.py`` calls *records*; ``fields`` is the schema of what
    is in their value.

    Raises:
        RefusedError: to give the batch up would give up records that were never attempted.
        DeadLetterError: the rows are in the table, the dead letters are not all stored.
        BreakerTripped: all steps are done, but too many of the records were rejected.
    """
    started = time.monotonic()
    decoder = Decoder(records.sparkSession, topic, fields)

    # 1. The attempt, on record before any effect.
    checkpoint = Checkpoint(records.sparkSession, topic.checkpoint, topic.name)
    if not delivery.is_first_attempt(batch, checkpoint):
        given_up = delivery.give_up(records, batch, topic)
        balance = Balance(
            batch.id, given_up, written=0, dead_lettered=0, filtered=0, skipped=given_up
        )
        metrics.publish(balance, topic.name, seconds=time.monotonic() - started)
        return

    # 2. The good rows, in one commit of the table.
    counted, read = observe(records, read=every())
    decoded, found = observe(decoder.decode(counted), **outcomes())
    done = sink.write(transform(topic.name, accepted_rows(decoded)), batch, topic)

    # 3. The dead letters, of which a crash may lose some.
    letters = Letters()
    if found.get["rejected"]:
        letters = dead_letters.send(decoder.rejected(records), batch, topic)

    # 4. For those who watch: progress for lag tools, and how many records went where. Best effort:
    #    a failure here is a line in the log.
    kafka.publish_progress(topic.settings, topic.name, batch.ends)
    balance = Balance.of(batch, read.get, found.get, done, letters)
    metrics.publish(balance, topic.name, seconds=time.monotonic() - started)

    # 5. Too many rejected: the query stops, once Spark has noted this batch as done. So a wrong
    #    schema costs one batch of dead letters, not all that the topic holds.
    breaker.check(balance, topic, found.get["reason"])
