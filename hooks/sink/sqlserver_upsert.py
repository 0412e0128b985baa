"""The write: of each key the newest record wins, in the batch and against the table.

All of a batch is one transaction of two MERGEs, the deletes and then the rows: one for both would
say how many rows it changed, and not how many of them are gone.
"""

from functools import partial

from pyspark.sql import DataFrame

from .batch import Batch, Written
from .database import Connection, quoted, table_of
from .merging import merge
from .newest import newest
from .settings import Topic
from .staging import Merge, Staging

LOCKED = "WITH (HOLDLOCK, UPDLOCK)"
"""Without it, two that merge one key at once can both find no row and both insert one."""


def write(rows: DataFrame, batch: Batch, topic: Topic) -> Written:
    """Merges the *rows* of one batch (``shapes.py``), deletes among them.

    Raises:
        see ``merging.merge``.
    """
    keys = topic.table.key_columns
    return merge(rows, topic, keys, lambda rows: newest(rows, topic), _merge, batch)


def fill(rows: DataFrame, topic: Topic) -> Written:
    """The same without a batch's identity: safe to repeat, an older record changes nothing."""
    keys = topic.table.key_columns
    return merge(rows, topic, keys, lambda rows: newest(rows, topic), _merge, None)


def _merge(connection: Connection, topic: Topic, staging: Staging) -> Merge:
    return partial(_merge_part, connection, topic, staging)


def _merge_part(
    connection: Connection, topic: Topic, staging: Staging, part: str
) -> tuple[int, int]:
    columns = [name for name in staging.values if name != "_deleted"]
    keys = topic.table.key_columns
    changes = [f"{quoted(name)} = {_of('fresh', name)}" for name in columns if name not in keys]
    deletion = f"WHEN MATCHED AND {_is_newer(topic)} THEN DELETE;"
    change = (
        f"WHEN MATCHED AND {_is_newer(topic)} THEN UPDATE SET {', '.join(changes)} "
        f"WHEN NOT MATCHED THEN INSERT ({', '.join(map(quoted, columns))}) "
        f"VALUES ({', '.join(_of('fresh', name) for name in columns)});"
    )
    deleted_staged = staging.values["_deleted"]
    deleted = connection.execute(
        f"{_matched(topic, staging, f'{part} AND {deleted_staged} = 1')} {deletion}"
    )
    written = connection.execute(
        f"{_matched(topic, staging, f'{part} AND {deleted_staged} = 0')} {change}"
    )
    return written, deleted


def _matched(topic: Topic, staging: Staging, condition: str) -> str:
    """The beginning of a MERGE: the rows that are ``held`` beside those that are ``fresh``."""
    values = ", ".join(f"{value} AS {quoted(name)}" for name, value in staging.values.items())
    same_key = " AND ".join(
        f"{_of('held', name)} = {_of('fresh', name)}" for name in topic.table.key_columns
    )
    return (
        f"MERGE INTO {table_of(topic)} {LOCKED} AS held USING (SELECT {values} "
        f"FROM {staging.name} AS staged WHERE {condition}) AS fresh ON {same_key}"
    )


def _is_newer(topic: Topic) -> str:
    """Whether the row that is ``fresh`` is newer than the one that is ``held``: see ``newest.py``.

    Spelled out, since T-SQL compares no tuples. A row that was there before the pipeline has no
    coordinates and is older than any record, but for its ``newest_by``, if it has that.
    """
    by_coordinates = (
        "(held._offset IS NULL OR "
        "fresh._partition = held._partition AND fresh._offset > held._offset OR "
        "fresh._partition <> held._partition AND (fresh._timestamp > held._timestamp OR "
        "fresh._timestamp = held._timestamp AND fresh._partition > held._partition))"
    )
    if not topic.table.newest_by:
        return by_coordinates
    ours, theirs = (_moment(side, topic) for side in ("fresh", "held"))
    return f"({theirs} IS NULL OR {ours} > {theirs} OR {ours} = {theirs} AND {by_coordinates})"


def _moment(side: str, topic: Topic) -> str:
    return f"coalesce({_of(side, str(topic.table.newest_by))}, {side}._timestamp)"


def _of(side: str, name: str) -> str:
    return f"{side}.{quoted(name)}"
