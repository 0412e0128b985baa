"""The write: of each key the newest record wins, in the batch and against the table.

All of a batch is one transaction: the deletes, then the rows, in the order of their keys, so that
another writer that keeps to the same order never waits for one that waits for it.
"""

from functools import partial

from psycopg import sql
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from .batch import Batch, Written
from .database import Connection, table_of
from .merging import merge
from .newest import newest
from .settings import Topic
from .staging import Merge, Staging


def write(rows: DataFrame, batch: Batch, topic: Topic) -> Written:
    """Merges the *rows* of one batch (``shapes.py``), deletes among them.

    Raises:
        see ``merging.merge``.
    """
    return merge(rows, topic, partial(_newest, topic), _merge, batch)


def fill(rows: DataFrame, topic: Topic) -> Written:
    """The same without a batch's identity: safe to repeat, an older record changes nothing."""
    return merge(rows, topic, partial(_newest, topic), _merge, None)


def _newest(topic: Topic, rows: DataFrame, there: dict[str, str]) -> DataFrame:
    """Of each key the newest; of a UUID, which the database knows in any spelling, one spelling."""
    for name in topic.table.key_columns:
        if there.get(name) == "uuid":
            given = F.col("`" + name.replace("`", "``") + "`")
            rows = rows.withColumn(name, F.lower(F.regexp_replace(given, "[{}-]", "")))
    return newest(rows, topic)


def _merge(connection: Connection, topic: Topic, staging: Staging) -> Merge:
    return partial(_merge_part, connection, topic, staging)


def _merge_part(
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
    own_clock = _own_clock(topic, columns)
    deletion = sql.SQL("DELETE FROM {} AS held USING {} WHERE {} AND fresh._deleted AND {}").format(
        table_of(topic), fresh, same_key, _is_newer("fresh", own_clock)
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
        newer=_is_newer("excluded", own_clock),
    )
    deleted = connection.execute(deletion).rowcount
    return connection.execute(insertion).rowcount, deleted


def _own_clock(topic: Topic, columns: list[str]) -> str | None:
    """The column that ``newest_by`` names, as it is spelled: to Spark, case is nothing."""
    named = (topic.table.newest_by or "").lower()
    return next((name for name in columns if name.lower() == named), None)


def _is_newer(side: str, own_clock: str | None) -> sql.Composable:
    """Whether a row is newer than the one that is ``held``: see ``newest.py``.

    A row that was there before the pipeline has no coordinates and is older than any record, but
    for its ``own_clock``, if it has that.
    """
    by_coordinates = sql.SQL(
        "(held._offset IS NULL OR CASE WHEN {side}._partition = held._partition "
        "THEN {side}._offset > held._offset ELSE "
        "({side}._timestamp, {side}._partition) > (held._timestamp, held._partition) END)"
    ).format(side=sql.Identifier(side))
    if not own_clock:
        return by_coordinates
    ours, theirs = (_moment(each, own_clock) for each in (side, "held"))
    return sql.SQL(
        "({theirs} IS NULL OR {ours} > {theirs} OR ({ours} = {theirs} AND {by_coordinates}))"
    ).format(ours=ours, theirs=theirs, by_coordinates=by_coordinates)


def _moment(side: str, own_clock: str) -> sql.Composed:
    own = sql.Identifier(side, own_clock)
    return sql.SQL("coalesce({}, {})").format(own, sql.Identifier(side, "_timestamp"))


def _listed(names: list[str]) -> sql.Composed:
    return sql.SQL(", ").join(map(sql.Identifier, names))
