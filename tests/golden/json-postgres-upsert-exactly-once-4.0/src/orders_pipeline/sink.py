"""The write: of each key the newest record wins, in the batch and against the table.

All of a batch is one transaction: the deletes, then the rows, in the order of their keys, so that
another writer that keeps to the same order never waits for one that waits for it.
"""

from psycopg import sql
from pyspark.sql import DataFrame

from .batch import Batch, Written
from .database import Connection, table_of
from .merging import merge
from .newest import newest
from .settings import Topic
from .staging import Staging


def write(rows: DataFrame, batch: Batch, topic: Topic) -> Written:
    """Merges the *rows* of one batch (``shapes.py``), deletes among them.

    Raises:
        see ``merging.merge``.
    """
    return merge(rows, topic, lambda rows: newest(rows, topic), _merge, batch)


def fill(rows: DataFrame, topic: Topic) -> Written:
    """The same without a batch's identity: safe to repeat, an older record changes nothing."""
    return merge(rows, topic, lambda rows: newest(rows, topic), _merge, None)


def _merge(
    connection: Connection, topic: Topic, staging: Staging, part: sql.Composable
) -> tuple[int, int]:
    columns = [name for name in staging.values if name != "_deleted"]
    keys = topic.table.key_columns
    same_key = sql.SQL(" AND ").join(
        sql.SQL("{} = {}").format(sql.Identifier("held", name), sql.Identifier("fresh", name))
        for name in keys
    )
    fresh = sql.SQL("(SELECT {} FROM {} AS staged WHERE {}) AS fresh").format(
        sql.SQL(", ").join(
            sql.SQL("{} AS {}").format(value, sql.Identifier(name))
            for name, value in staging.values.items()
        ),
        staging.name,
        part,
    )
    deletion = sql.SQL("DELETE FROM {} AS held USING {} WHERE {} AND fresh._deleted AND {}").format(
        table_of(topic), fresh, same_key, _is_newer("fresh", topic)
    )
    insertion = sql.SQL(
        "INSERT INTO {table} AS held ({names}) SELECT {names} FROM {fresh} WHERE NOT _deleted "
        "ORDER BY {keys} ON CONFLICT ({keys}) DO UPDATE SET {changes} WHERE {newer}"
    ).format(
        table=table_of(topic),
        names=_listed(columns),
        fresh=fresh,
        keys=_listed(keys),
        changes=sql.SQL(", ").join(
            sql.SQL("{} = {}").format(sql.Identifier(name), sql.Identifier("excluded", name))
            for name in columns
        ),
        newer=_is_newer("excluded", topic),
    )
    deleted = connection.execute(deletion).rowcount
    return connection.execute(insertion).rowcount, deleted


def _is_newer(side: str, topic: Topic) -> sql.Composable:
    """Whether a row is newer than the one that is ``held``: see ``newest.py``."""
    by_coordinates = sql.SQL(
        "CASE WHEN {side}._partition = held._partition THEN {side}._offset > held._offset ELSE "
        "({side}._timestamp, {side}._partition) > (held._timestamp, held._partition) END"
    ).format(side=sql.Identifier(side))
    if not topic.table.newest_by:
        return by_coordinates
    return sql.SQL("({ours} > {theirs} OR ({ours} = {theirs} AND {by_coordinates}))").format(
        ours=_moment(side, topic), theirs=_moment("held", topic), by_coordinates=by_coordinates
    )


def _moment(side: str, topic: Topic) -> sql.Composed:
    own = sql.Identifier(side, str(topic.table.newest_by))
    return sql.SQL("coalesce({}, {})").format(own, sql.Identifier(side, "_timestamp"))


def _listed(names: list[str]) -> sql.Composed:
    return sql.SQL(", ").join(map(sql.Identifier, names))
