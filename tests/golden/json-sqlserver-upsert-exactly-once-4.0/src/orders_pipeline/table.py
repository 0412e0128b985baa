"""The SQL Server table of a topic: made, widened, checked column by column."""

import logging
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from . import ledger
from .catalog import Held, columns_of, number_of, unique_keys
from .column_types import holds, type_for
from .database import Connection, connect, quoted, table_of, try_again
from .database_errors import DatabaseError
from .errors import RefusedError, StorageError
from .leftovers import remove_left
from .settings import Topic

LONGEST_NAME = 128
"""In UTF-16 units."""
NAME_IS_TAKEN = 2714
"""SQL Server's number for that; it passes by where another process has just made the table."""
COLLATION = "Latin1_General_100_BIN2"
"""For text that is a key: by most others, ``a`` and ``A`` would be one key."""
log = logging.getLogger(__name__)


def prepare(spark: SparkSession, topic: Topic, columns: StructType) -> None:
    """Makes the table if there is none, and adds the columns that it lacks.

    Of the processes that write the topic's batches, the one that called this last goes on.

    Raises:
        NoAnswerError: the database does not answer.
        RefusedError: the table cannot take the rows, or lacks a column that may not be added.
        StorageError: nothing is wrong with the table: what stopped this, time and again, passes by.
    """
    wanted = {column.name: _type(topic, column.name, column.dataType) for column in columns}
    try:
        try_again(lambda: _prepare(topic, wanted))
    except DatabaseError as error:
        if error.code == NAME_IS_TAKEN:
            raise RefusedError(
                f"{topic.location} is no table, but a view or another object. Nothing was written. "
                "Name another with table.table_name, then start again."
            ) from error
        if error.passes_by:
            raise StorageError(
                f"The table {topic.location} could not be made ready: {error.reason}. No batch "
                "was begun. Once that has passed, start again."
            ) from error
        raise RefusedError(
            f"The table {topic.location} could not be made ready: {error.reason}. Nothing was "
            "written. Mend that, then start again."
        ) from error


def _prepare(topic: Topic, wanted: dict[str, str]) -> None:
    with connect(topic) as connection:
        with connection.transaction():
            ledger.prepare(connection, topic)
            ledger.lock(connection, topic)
            present = columns_of(connection, topic)
            if not present:
                log.info("making the table %s", topic.location)
                _create(connection, topic, wanted)
            else:
                _check_types(topic, present, wanted)
                _check_required(topic, present, wanted)
                _add_missing(connection, topic, present, wanted)
                _check_names(connection, topic, wanted)
            _check_key(connection, topic)
            ledger.take_over(connection, topic)
        remove_left(connection, topic, _number(connection, topic))


def exists(spark: SparkSession, topic: Topic) -> bool:
    """True when the topic has a table."""
    return identity(spark, topic) is not None


def identity(spark: SparkSession, topic: Topic) -> str | None:
    """What SQL Server knows the table by; None where there is no table."""

    def look() -> str | None:
        with connect(topic) as connection:
            found = _number(connection, topic)
        return None if found is None else f"{topic.settings.database.name}.{found}"

    return try_again(look)


def newest_labels(spark: SparkSession, topic: Topic) -> list[dict[str, Any]]:
    """The label of the newest batch of each pipeline that ever wrote here, the newest first."""

    def look() -> list[dict[str, Any]]:
        with connect(topic) as connection:
            return ledger.newest_labels(connection, topic)

    return try_again(look)


def _number(connection: Connection, topic: Topic) -> int | None:
    return number_of(connection, topic.table.schema_name, topic.table_name)


def _type(topic: Topic, name: str, kind: Any) -> str:
    found = type_for(kind, is_key=name in topic.table.key_columns)
    if found is None:
        raise RefusedError(
            f"The column {name} of {topic.name} is {kind.simpleString()}, for which SQL Server has "
            "no type, or none that is a key. Nothing was written. Leave it out, or make another of "
            "it, in transform.py."
        )
    if len(name.encode("utf-16-le")) // 2 > LONGEST_NAME:
        raise RefusedError(
            f"The column {name} of {topic.name} has a name of more than {LONGEST_NAME} characters, "
            "which SQL Server does not take. Nothing was written. Rename it in transform.py."
        )
    return found


def _create(connection: Connection, topic: Topic, wanted: dict[str, str]) -> None:
    keys = topic.table.key_columns
    parts = [
        _key_part(name, kind) if name in keys else _part(name, kind)
        for name, kind in wanted.items()
    ]
    parts.append(f"PRIMARY KEY ({', '.join(map(quoted, keys))})")
    connection.execute(f"CREATE TABLE {table_of(topic)} ({', '.join(parts)})")


def _part(name: str, kind: str) -> str:
    return f"{quoted(name)} {kind} NULL"


def _key_part(name: str, kind: str) -> str:
    collated = f" COLLATE {COLLATION}" if kind.startswith("nvarchar") else ""
    return f"{quoted(name)} {kind}{collated} NOT NULL"


def _check_types(topic: Topic, present: dict[str, Held], wanted: dict[str, str]) -> None:
    for name, kind in wanted.items():
        held = present.get(name.lower())
        if held and not holds(held.kind, kind):
            raise RefusedError(
                f"The column {name} of the table {topic.location} is {held.kind}; the pipeline "
                f"has {kind} for it. Nothing was written. Give the field another name, change the "
                "table's column, or cast it in transform.py."
            )


def _check_required(topic: Topic, present: dict[str, Held], wanted: dict[str, str]) -> None:
    """A column that no row would fill must not insist on a value."""
    ours = {name.lower() for name in wanted}
    unfilled = sorted(name for name, held in present.items() if held.needs_value)
    unfilled = [name for name in unfilled if name not in ours]
    if unfilled:
        raise RefusedError(
            f"The table {topic.location} wants a value in {unfilled}, which the pipeline does not "
            "have. Nothing was written. Give each a default, or let transform.py make it."
        )


def _add_missing(
    connection: Connection, topic: Topic, present: dict[str, Held], wanted: dict[str, str]
) -> None:
    missing = {name: kind for name, kind in wanted.items() if name.lower() not in present}
    if missing and topic.table.schema_changes == "refuse":
        raise RefusedError(
            f"The table {topic.location} lacks the columns {list(missing)}. Nothing was written. "
            'Add them, or set table.schema_changes = "add".'
        )
    if missing:
        log.info("adding to %s: %s", topic.location, list(missing))
    for name, kind in missing.items():
        connection.execute(f"ALTER TABLE {table_of(topic)} ADD {_part(name, kind)}")


def _check_names(connection: Connection, topic: Topic, wanted: dict[str, str]) -> None:
    """Has the server find each column: to a database that tells case apart, ``ID`` is no ``id``."""
    names = ", ".join(map(quoted, wanted))
    connection.query(f"SELECT {names} FROM {table_of(topic)} WHERE 1 = 0")


def _check_key(connection: Connection, topic: Topic) -> None:
    """The database itself must see to it that a key has one row, and tell keys apart as we do."""
    keys = [name.lower() for name in topic.table.key_columns]
    names = ", ".join(map(quoted, topic.table.key_columns))
    if set(keys) not in unique_keys(connection, topic):
        raise RefusedError(
            f"The table {topic.location} has no unique index on its key columns. Nothing was "
            f"written. Make one: ALTER TABLE {topic.location} ADD UNIQUE ({names})"
        )
    columns = columns_of(connection, topic)
    for name in keys:
        collation = columns[name].collation
        if collation and not collation.endswith(("_BIN", "_BIN2")):
            raise RefusedError(
                f"The key column {name} of the table {topic.location} compares text by "
                f"{collation}, to which different keys can be the same, as a and A. Nothing was "
                f"written. Give it the collation {COLLATION}."
            )
