"""What happens to a batch of records, and in what order.

``streams.py`` calls ``ingest`` for each batch that Spark plans. Spark commits the batch when
``ingest`` returns; if the process dies before that, Spark hands the same records over again at the
next start, with the same batch id, and every step below is safe to do twice.
"""

import time

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from . import breaker, dead_letters, delivery, kafka, metrics, sink
from .batch import Balance, Batch, Letters, Written
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
        BatchError: the batch could not be finished; it runs again at the next start.
        RefusedError: a replay would lose records; nothing was written.
        BreakerTripped: the batch is complete, but too many of its records were rejected.
    """
    started = time.monotonic()
    kept = start_keeping(records.sparkSession, topic)
    counted, read = observe(records, read=every())
    decoded, found = observe(decode_records(counted, topic, fields, kept), **outcomes())

    # 1. The good rows, in one commit. A batch that the table has already is not written again; its
    #    dead letters may still be missing, so its records are decoded all the same.
    rows = accepted_rows(decoded)
    if delivery.was_written(batch, topic, records.sparkSession):
        done = skip(rows)
    else:
        done = sink.write(transform(topic.name, rows), batch, topic)

    # 2. The dead letters, before Spark commits: a crash may repeat one, never lose one. They
    #    were kept aside in the first reading; where they were too many, this is the second.
    letters = Letters()
    if count := found.get["rejected"]:
        rejected = decode_rejected(records, topic, fields, kept, count)
        letters = dead_letters.send(rejected, batch, topic)

    # 3. What others see of it: progress for lag tools, and where every record went.
    kafka.publish_progress(topic.settings, topic.name, batch.ends)
    balance = Balance.of(batch, read.get, found.get, done, letters)
    metrics.publish(balance, topic.name, seconds=time.monotonic() - started)

    # 4. A wrong schema costs one batch of dead letters, not a topic of them.
    breaker.check(balance, topic)


def skip(rows: DataFrame) -> Written:
    """Reads the rows of a batch that the table has already, so that they are counted."""
    accepted = rows.count()
    return Written(received=accepted, written=0, skipped=accepted)
