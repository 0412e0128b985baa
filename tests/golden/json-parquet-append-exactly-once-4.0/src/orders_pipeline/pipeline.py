"""What happens to a batch of records, in what order, and what stops the query.

``streams.py`` calls ``ingest`` for each batch that Spark plans; when it returns, Spark notes in its
checkpoint that the batch is done. If a crash or an error ends it before that, Spark hands the same
records over again at the next start, under the same batch id. Every step below is safe to do twice:
a row is written once, a dead letter may repeat.

A record that cannot be decoded is not dropped: its own bytes go to the topic's dead-letter topic,
with the reason in the headers. An error stops the query, and ``streams.py`` then stops the others.
"""

import time

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from . import breaker, dead_letters, delivery, kafka, metrics, sink
from .batch import Balance, Batch, Letters, Written
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
        RefusedError: the table has this batch, but with other records than are planned for it now.
        DeadLetterError: the rows are in the table, the dead letters are not all stored.
        BreakerTripped: all steps are done, but too many of the records were rejected.
    """
    started = time.monotonic()
    decoder = Decoder(records.sparkSession, topic, fields)
    counted, read = observe(records, read=every())
    decoded, found = observe(decoder.decode(counted), **outcomes())
    # 1. The good rows, as one folder of the table. A batch that it already has is not written
    #    again, but read and decoded anyway, since its dead letters may still be missing.
    rows = accepted_rows(decoded)
    if delivery.was_written(batch, topic, records.sparkSession):
        done = skip(rows)
    else:
        done = sink.write(transform(topic.name, rows), batch, topic)

    # 2. The dead letters, before Spark notes the batch as done: a crash may repeat one, never lose
    #    one.
    letters = Letters()
    if count := found.get["rejected"]:
        letters = dead_letters.send(decoder.rejected(records, count), batch, topic)

    # 3. For those who watch: progress for lag tools, and how many records went where. Best effort:
    #    a failure here is a line in the log.
    kafka.publish_progress(topic.settings, topic.name, batch.ends)
    balance = Balance.of(batch, read.get, found.get, done, letters)
    metrics.publish(balance, topic.name, seconds=time.monotonic() - started)

    # 4. Too many rejected: the query stops, once Spark has noted this batch as done. So a wrong
    #    schema costs one batch of dead letters, not all that the topic holds.
    breaker.check(balance, topic, found.get["reason"])


def skip(rows: DataFrame) -> Written:
    """Reads the rows of a batch that the table already has: they are counted, the rejected kept."""
    accepted = rows.count()
    return Written(received=accepted, written=0, skipped=accepted)
