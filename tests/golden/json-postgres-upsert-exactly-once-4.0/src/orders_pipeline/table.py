"""The PostgreSQL table of a topic: made, widened, checked column by column."""

import logging
from typing import Any

import psycopg
from psycopg import sql
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from . import ledger
from .column_types import holds, type_for
from .database import Connection, connect, table_of, told_while_slow, try_again
from .errors import RefusedError
from .settings import Topic

LONGEST_NAME_BYTES = 63
"""PostgreSQL cuts longer ones, without a word."""
log = logging.getLogger(__name__)


def prepare(spark: SparkSession, topic: Topic, columns: StructType) -> None:
    """Makes the table if there is none, and adds the columns that it lacks.

    Of the processes that write the topic's batches, the one that called this last goes on.

    Raises:
        NoAnswerError: the database does not answer.
        SettingsError: there is no TLS with it as the settings want it.
        RefusedError: the table cannot take the rows, or lacks a column that may not be added.
        psycopg.OperationalError: the connection was lost time and again, or a disk is full.
    """
    wanted = {column.name: _type(topic, column.name, column.dataType) for column in columns}
    try:
        try_again(lambda: _prepare(topic, wanted))
    except psycopg.OperationalError:
        raise  # nothing is wrong with the table
    except psycopg.Error as error:
        raise RefusedError(
            f"The table {topic.location} could not be made ready: "
            f"{error.diag.message_primary or type(error).__name__}. Nothing was written. Mend "
            "that, then start again."
        ) from error


def _prepare(topic: Topic, wanted: dict[str, str]) -> None:
    with (
        connect(topic) as connection,
        told_while_slow(connection, topic),
        connection.transaction(),
    ):
        _check_encoding(connection, topic)
        ledger.prepare(connection, topic)
        present = columns_of(connection, topic)
        if not present:
            log.info("making the table %s", topic.location)
            _create(connection, topic, wanted)
        else:
            _check_types(topic, present, wanted)
            _check_required(connection, topic, wanted)
            _add_missing(connection, topic, present, wanted)
        _check_key(connection, topic)
        _check_collation(connection, topic)
        ledger.take_over(connection, topic)


def exists(spark: SparkSession, topic: Topic) -> bool:
    """True when the topic has a table."""
    return identity(spark, topic) is not None


def identity(spark: SparkSession, topic: Topic) -> str | None:
    """What PostgreSQL knows the table by, and its database; None where there is no table."""

    def look() -> str | None:
        with connect(topic) as connection:
            ours = "SELECT oid FROM pg_database WHERE datname = current_database()"
            [database] = connection.execute(ours).fetchone() or [None]
            found = oid(connection, topic)
        return None if found is None else f"{database}.{found}"

    return try_again(look)


def oid(connection: Connection, topic: Topic) -> int | None:
    """The number that PostgreSQL gave the table when it was made; None where there is no table."""
    found = connection.execute(
        sql.SQL("SELECT to_regclass({})::oid").format(table_of(topic).as_string())
    ).fetchone()
    return found[0] if found else None


def newest_labels(spark: SparkSession, topic: Topic) -> list[dict[str, Any]]:
    """The label of the newest batch of each pipeline that ever wrote here, the newest first."""

    def look() -> list[dict[str, Any]]:
        with connect(topic) as connection:
            return ledger.newest_labels(connection, topic)

    return try_again(look)


def columns_of(connection: Connection, topic: Topic) -> dict[str, str]:
    """The columns of the table, in their order, with their types; empty where there is no table."""
    found = connection.execute(
        sql.SQL(
            "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute "
            "JOIN pg_class c ON c.oid = attrelid JOIN pg_namespace n ON n.oid = relnamespace "
            "WHERE nspname = {} AND relname = {} AND attnum > 0 AND NOT attisdropped "
            "AND attgenerated = '' ORDER BY attnum"
        ).format(topic.table.schema_name, topic.table_name)
    )
    return dict(found.fetchall())


def _type(topic: Topic, name: str, kind: Any) -> str:
    found = type_for(kind)
    if found is None:
        raise RefusedError(
            f"The column {name} of {topic.name} is {kind.simpleString()}, for which PostgreSQL has "
            "no type. Nothing was written. Leave it out, or make another of it, in transform.py."
        )
    if len(name.encode()) > LONGEST_NAME_BYTES:
        raise RefusedError(
            f"The column {name} of {topic.name} has a name of more than {LONGEST_NAME_BYTES} "
            "bytes, which PostgreSQL would cut. Nothing was written. Rename it in transform.py."
        )
    return found


def _create(connection: Connection, topic: Topic, wanted: dict[str, str]) -> None:
    parts = [_definition(name, kind) for name, kind in wanted.items()]
    keys = sql.SQL(", ").join(map(sql.Identifier, topic.table.key_columns))
    parts.append(sql.SQL("PRIMARY KEY ({})").format(keys))
    # Half of each page is left for the rows' next versions: beside the old ones they need no new
    # entry in the index, which makes a merge twice as fast and keeps the table smaller.
    made = sql.SQL("CREATE TABLE {} ({}) WITH (fillfactor = 50)")
    connection.execute(made.format(table_of(topic), sql.SQL(", ").join(parts)))


def _definition(name: str, kind: str) -> sql.Composed:
    return sql.SQL("{} {}").format(sql.Identifier(name), sql.SQL(kind))


def _check_encoding(connection: Connection, topic: Topic) -> None:
    [encoding] = connection.execute("SHOW server_encoding").fetchone() or [None]
    if encoding != "UTF8":
        raise RefusedError(
            f"The database {topic.settings.database.name} has the encoding {encoding}, which lacks "
            "characters that records may hold. Nothing was written. Use one with UTF8: CREATE "
            "DATABASE … ENCODING 'UTF8' TEMPLATE template0."
        )


def _check_types(topic: Topic, present: dict[str, str], wanted: dict[str, str]) -> None:
    for name, kind in wanted.items():
        if name in present and not holds(present[name], kind):
            raise RefusedError(
                f"The column {name} of the table {topic.location} is {present[name]}; the pipeline "
                f"has {kind} for it. Nothing was written. Give the field another name, change the "
                "table's column, or cast it in transform.py."
            )


def _check_required(connection: Connection, topic: Topic, wanted: dict[str, str]) -> None:
    """A column that no row would fill must not insist on a value."""
    found = connection.execute(
        sql.SQL(
            "SELECT attname FROM pg_attribute WHERE attrelid = {} AND attnum > 0 "
            "AND NOT attisdropped AND attnotnull AND NOT atthasdef AND attidentity = ''"
        ).format(_regclass(topic))
    )
    unfilled = sorted({name for (name,) in found} - set(wanted))
    if unfilled:
        raise RefusedError(
            f"The table {topic.location} wants a value in {unfilled}, which the pipeline does not "
            "have. Nothing was written. Give each a default, or let transform.py make it."
        )


def _add_missing(
    connection: Connection, topic: Topic, present: dict[str, str], wanted: dict[str, str]
) -> None:
    missing = {name: kind for name, kind in wanted.items() if name not in present}
    if missing and topic.table.schema_changes == "refuse":
        raise RefusedError(
            f"The table {topic.location} lacks the columns {list(missing)}. Nothing was written. "
            'Add them, or set table.schema_changes = "add".'
        )
    if missing:
        log.info("adding to %s: %s", topic.location, list(missing))
    for name, kind in missing.items():
        added = sql.SQL("ALTER TABLE {} ADD COLUMN {}")
        connection.execute(added.format(table_of(topic), _definition(name, kind)))


def _check_key(connection: Connection, topic: Topic) -> None:
    """The database itself must see to it that a key has one row."""
    unique = connection.execute(
        sql.SQL(
            "SELECT array_agg(attname::text) FROM pg_index JOIN pg_attribute "
            "ON attrelid = indrelid AND attnum = ANY (indkey[0:indnkeyatts - 1]) "
            "WHERE indrelid = {} "
            "AND indisunique AND indisvalid AND indimmediate AND indpred IS NULL "
            "AND indexprs IS NULL GROUP BY indexrelid"
        ).format(_regclass(topic))
    )
    if not any(set(names) == set(topic.table.key_columns) for (names,) in unique):
        names = ", ".join(f'"{name}"' for name in topic.table.key_columns)
        raise RefusedError(
            f"The table {topic.location} has no unique index on its key columns. Nothing was "
            f"written. Make one: ALTER TABLE {topic.location} ADD UNIQUE ({names})"
        )


def _check_collation(connection: Connection, topic: Topic) -> None:
    """What are two keys to Spark must not be one to the database."""
    found = connection.execute(
        sql.SQL(
            "SELECT attname FROM pg_attribute LEFT JOIN pg_collation c ON c.oid = attcollation "
            "WHERE attrelid = {} AND attname = ANY ({}) "
            "AND (NOT collisdeterministic OR atttypid = 'jsonb'::regtype)"
        ).format(_regclass(topic), topic.table.key_columns)
    )
    if names := [name for (name,) in found]:
        raise RefusedError(
            f"To the table {topic.location}, different texts in its key columns {names} may be "
            "equal, by their collation or as jsonb: which record of a key is the newest could not "
            "be told. Nothing was written. Make them text, of a deterministic collation."
        )


def _regclass(topic: Topic) -> sql.Composed:
    """The table as the catalog's other tables point to it."""
    named = table_of(topic).as_string()
    return sql.SQL("{}::regclass").format(named)
