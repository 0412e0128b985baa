"""The write: every row is added to the table, all of a batch in one transaction."""

from dataclasses import replace

from pyspark.sql import DataFrame

from .batch import Batch, Written
from .database import Connection, quoted, table_of
from .merging import merge
from .settings import Topic
from .shapes import COORDINATES
from .staging import Merge, Staging


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


def _insert(connection: Connection, topic: Topic, staging: Staging) -> Merge:
    names = ", ".join(map(quoted, staging.values))
    values = ", ".join(staging.values.values())
    insertion = (
        f"INSERT INTO {table_of(topic)} ({names}) SELECT {values} FROM {staging.name} AS staged"
    )
    return lambda part: (connection.execute(f"{insertion} WHERE {part}"), 0)


def _insert_missing(connection: Connection, topic: Topic, staging: Staging) -> Merge:
    """The table is read once for what it holds: it has no index of the coordinates."""
    names = ("_topic", "_partition", "_offset")
    same = " AND ".join(f"held.{quoted(name)} = {staging.values[name]}" for name in names)
    connection.execute(
        f"DELETE FROM {staging.name} WHERE _row IN (SELECT staged._row FROM {staging.name} "
        f"AS staged JOIN {table_of(topic)} AS held ON {same})"
    )
    return _insert(connection, topic, staging)
