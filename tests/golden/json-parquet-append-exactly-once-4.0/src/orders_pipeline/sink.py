"""The write: the rows of a batch become a folder of files, in place of one that is there."""

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from . import table
from .batch import Batch, Written
from .batch_folders import put
from .counting import every, observe
from .settings import Topic
from .shapes import COORDINATES


def write(rows: DataFrame, batch: Batch, topic: Topic) -> Written:
    """Writes the *rows* of one batch (``shapes.py``) as its folder.

    Raises:
        RefusedError: another process writes the table now; nothing was written.
        BatchError: its files are gone, before or while they were moved into the table.
    """
    spark = rows.sparkSession
    rows, counts = observe(rows, received=every())
    put(
        rows,
        topic,
        name=f"{batch.pipeline}.{batch.id}",
        label=batch.label(),
        check=lambda: table.check_writer(spark, topic),
    )
    received = int(counts.get["received"])
    return Written(received=received, written=received)


def fill(rows: DataFrame, topic: Topic) -> Written:
    """Adds those *rows* whose coordinates the table does not hold, in a folder of their own.

    Safe to repeat, and beside the stream as long as the rows lie before its position: the stream
    never comes back to them.

    Raises:
        RefusedError: ``compact`` is at work, or another fill has ended meanwhile; or the table has
            other columns.
        BatchError: its files are gone, before or while they were moved into the table.
    """
    spark = rows.sparkSession
    table.check_columns(spark, topic, rows.schema)
    rows, counts = observe(rows, received=every())
    names = [name for name in COORDINATES.fieldNames() if name != "_timestamp"]
    before = table.filled(spark, topic)

    def check() -> None:
        table.check_filled(spark, topic, before)

    check()  # a fold that has begun to move its files would go unnoticed later
    held = table.read(spark, topic).select(*names)
    missing = rows.dropDuplicates(names).join(held, names, "left_anti")
    added, added_counts = observe(missing.select(*rows.columns), written=every())
    try:
        put(added, topic, name=table.dated("backfill"), label={}, check=check)
    except (PySparkException, Py4JJavaError):
        check()  # a fold removes files that are being read
        raise
    received, written = int(counts.get["received"]), int(added_counts.get["written"])
    return Written(received=received, written=written, skipped=received - written)
