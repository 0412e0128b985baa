"""The write: every row is added to the Iceberg table, one commit for each batch."""

from pyspark.sql import DataFrame

from . import catalog, table
from .batch import Batch, Written
from .commits import commit_batch, commit_unlabelled
from .counting import every, observe
from .settings import Topic
from .shapes import COORDINATES


def write(rows: DataFrame, batch: Batch, topic: Topic) -> Written:
    """Adds the *rows* of one batch (``shapes.py``), in one commit.

    Where the table may have the batch and cannot know, since its older snapshots have expired, the
    rows' own coordinates tell: those that it holds are not added.
    """
    spark = rows.sparkSession
    rows, counts = observe(rows, received=every())
    new = rows
    if table.may_forget(catalog.load(spark, topic), batch.pipeline):
        new = _missing(rows, topic)
    new, new_counts = observe(new, written=every())
    commit_batch(lambda _: _append(new, topic), batch, topic, spark)
    received, written = int(counts.get["received"]), int(new_counts.get["written"])
    return Written(received=received, written=written, skipped=received - written)


def fill(rows: DataFrame, topic: Topic) -> Written:
    """Adds those *rows* whose coordinates the table does not hold, in one commit.

    Safe to repeat, and beside the stream as long as the rows lie before its position: the stream
    never comes back to them. Not beside another fill of the same rows.
    """
    rows, counts = observe(rows, received=every())
    once = rows.dropDuplicates(_coordinates())
    new, new_counts = observe(_missing(once, topic), written=every())
    commit_unlabelled(lambda _: _append(new, topic), topic, rows.sparkSession)
    received, written = int(counts.get["received"]), int(new_counts.get["written"])
    return Written(received=received, written=written, skipped=received - written)


def _append(rows: DataFrame, topic: Topic) -> None:
    spark = rows.sparkSession
    table.fitted(rows, topic).writeTo(catalog.full_name(spark, topic)).append()


def _missing(rows: DataFrame, topic: Topic) -> DataFrame:
    """*rows* without those whose coordinates the table holds."""
    held = table.read(rows.sparkSession, topic).select(*_coordinates())
    return rows.join(held, _coordinates(), "left_anti").select(*rows.columns)


def _coordinates() -> list[str]:
    return [name for name in COORDINATES.fieldNames() if name != "_timestamp"]
