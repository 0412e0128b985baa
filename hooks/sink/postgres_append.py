"""The write: every row is added to the table, all of a batch in one transaction."""

from dataclasses import replace

from psycopg import sql
from pyspark.sql import DataFrame

from .batch import Batch, Written
from .database import Connection, table_of
from .merging import merge
from .settings import Topic
from .shapes import COORDINATES
from .staging import Merge, Staging


def write(rows: DataFrame, batch: Batch, topic: Topic) -> Written:
    """Adds the *rows* of one batch (``shapes.py``).

    Raises:
        see ``merging.merge``.
    """
    return _counted(merge(rows, topic, lambda rows, _: rows, _insert, batch))


def fill(rows: DataFrame, topic: Topic) -> Written:
    """Adds those *rows* whose coordinates the table does not hold.

    Safe to repeat, and beside the stream as long as the rows lie before its position: the stream
    never comes back to them.
    """
    names = [name for name in COORDINATES.fieldNames() if name != "_timestamp"]
    return _counted(
        merge(rows, topic, lambda rows, _: rows.dropDuplicates(names), _insert_missing, None)
    )


def _counted(done: Written) -> Written:
    """What the table did not take, as it was there or by a trigger of its own, is skipped."""
    return replace(done, deduplicated=0, stale=0, skipped=done.deduplicated + done.stale)


def _insert(connection: Connection, topic: Topic, staging: Staging) -> Merge:
    insertion = sql.SQL("INSERT INTO {} ({}) SELECT {} FROM {} AS staged WHERE ").format(
        table_of(topic),
        sql.SQL(", ").join(map(sql.Identifier, staging.values)),
        sql.SQL(", ").join(staging.values.values()),
        staging.name,
    )
    return lambda part: (connection.execute(insertion + part).rowcount, 0)


def _insert_missing(connection: Connection, topic: Topic, staging: Staging) -> Merge:
    """The table is read once for what it holds: it has no index of the coordinates."""
    held = sql.SQL(
        "DELETE FROM {} AS staged USING {} AS held WHERE held._topic = {} "
        "AND held._partition = {} AND held._offset = {}"
    ).format(
        staging.name,
        table_of(topic),
        *(staging.values[name] for name in ("_topic", "_partition", "_offset")),
    )
    connection.execute(held)
    return _insert(connection, topic, staging)
