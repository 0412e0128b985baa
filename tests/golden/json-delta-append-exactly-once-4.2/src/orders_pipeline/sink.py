"""The write: every row is added to the Delta table, one commit for each batch."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from . import table
from .batch import Batch, Written
from .commits import commit_of
from .counting import every, observe
from .settings import Topic
from .shapes import COORDINATES


def write(rows: DataFrame, batch: Batch, topic: Topic) -> Written:
    """Adds the *rows* of one batch (``shapes.py``), in one commit."""
    rows, counts = observe(rows, received=every())

    def append() -> None:
        rows.write.format("delta").mode("append").save(topic.location)

    with commit_of(batch, rows.sparkSession):
        table.commit(topic, append)
    received = int(counts.get["received"])
    return Written(received=received, written=received)


def fill(rows: DataFrame, topic: Topic) -> Written:
    """Adds those *rows* whose coordinates the table does not hold, in one commit.

    Safe to repeat, and beside the stream as long as the rows lie before its position: the stream
    never comes back to them.
    """
    rows, counts = observe(rows, received=every())
    names = [name for name in COORDINATES.fieldNames() if name != "_timestamp"]
    same = F.lit(True)
    for name in names:
        same &= F.col(f"row.{name}") == F.col(f"held.{name}")
    values: dict[str, str | Column] = {
        table.quoted(name): F.col(f"row.{table.quoted(name)}") for name in rows.columns
    }

    def merge() -> DataFrame:
        return (
            table.open_table(rows.sparkSession, topic)
            .alias("held")
            .merge(rows.dropDuplicates(names).alias("row"), same)
            .whenNotMatchedInsert(values=values)
            .execute()
        )

    done = table.commit(topic, merge)
    written = int(done.first()["num_inserted_rows"])  # type: ignore[index]
    received = int(counts.get["received"])
    return Written(received=received, written=written, skipped=received - written)
