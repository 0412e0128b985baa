"""The write: every row is added to the table, all of a batch in one transaction."""

from dataclasses import replace

from pyspark.sql import DataFrame

from .batch import Batch, Written
from .database import Connection, quoted, table_of
from .merging import merge
from .settings import Topic
from .shapes import COORDINATES
from .staging import Staging


def write(rows: DataFrame, batch: Batch, topic: Topic) -> Written:
    """Adds the *rows* of one batch (``shapes.py``).

    Raises:
        see ``merging.merge``.
    """
    return _counted(merge(rows, topic, [], lambda rows: rows, _insert, batch))


def fill(rows: DataFrame, topic: Topic) -> Written:
    """Adds those *rows* whose coordinates the table does not hold.

    Safe to repeat, and beside the stream as long as the rows lie before its position: the stream
    never comes back to them.
    """
    names = [name for name in COORDINATES.fieldNames() if name != "_timestamp"]
    return _counted(
        merge(rows, topic, [], lambda rows: rows.dropDuplicates(names), _insert_missing, None)
    )


def _counted(done: Written) -> Written:
    """What the table did not take, as it was there or by a trigger of its own, is skipped."""
    return replace(done, deduplicated=0, stale=0, skipped=done.deduplicated + done.stale)


def _insert(connection: Connection, topic: Topic, staging: Staging, part: str) -> tuple[int, int]:
    return connection.execute(_insertion(topic, staging, part)), 0


def _insert_missing(
    connection: Connection, topic: Topic, staging: Staging, part: str
) -> tuple[int, int]:
    names = ("_topic", "_partition", "_offset")
    same = " AND ".join(f"held.{quoted(name)} = {staging.values[name]}" for name in names)
    missing = f"NOT EXISTS (SELECT 1 FROM {table_of(topic)} AS held WHERE {same})"
    return connection.execute(_insertion(topic, staging, f"{part} AND {missing}")), 0


def _insertion(topic: Topic, staging: Staging, condition: str) -> str:
    names = ", ".join(map(quoted, staging.values))
    values = ", ".join(staging.values.values())
    return (
        f"INSERT INTO {table_of(topic)} ({names}) SELECT {values} "
        f"FROM {staging.name} AS staged WHERE {condition}"
    )
