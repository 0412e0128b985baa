"""A table of one batch's rows beside the topic's own, filled by Spark's JDBC writer.

Nothing but the length of a key constrains it, so that whatever the topic's table refuses, it
refuses in one statement on the driver, where the row can be found. What JDBC would not send, or SQL
Server would take for another key, is found by Spark before: see ``unfit``.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    DateType,
    DoubleType,
    FloatType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from .catalog import Held, number_of
from .column_types import from_staged, length_of, staged_type, to_stage
from .database import Connection, address, credentials, quoted, what_was_said
from .database_errors import DatabaseError
from .errors import BatchError
from .leftovers import staging_name
from .settings import Topic

ROWS_PER_ROUND_TRIP = 1_000
SMALLEST = {FloatType: 2.0**-126, DoubleType: 2.0**-1022}
"""Nearer to zero there is but zero in SQL Server's ``real`` and ``float``."""


@dataclass(frozen=True)
class Staging:
    """Rows that wait to be merged, numbered by ``_row``."""

    name: str
    rows: int
    values: dict[str, str]
    """For each of the rows' columns its value, from a row of this table called ``staged``."""


Merge = Callable[[str], tuple[int, int]]
"""Merges staged rows for which a condition holds; how many it wrote, and how many it deleted."""
Begin = Callable[[Connection, Topic, Staging], Merge]
"""What comes before a merge: once, however many conditions are tried."""


@contextmanager
def staged(
    rows: DataFrame,
    count: int,
    topic: Topic,
    connection: Connection,
    there: dict[str, Held],
    keys: list[str],
    of_stream: bool,
) -> Iterator[Staging]:
    """A table with these *rows* (``shapes.py``), for the length of the block.

    There are ``count`` of them, none ``unfit``; ``there`` are the columns of the topic's table.

    Raises:
        DatabaseError: Spark could not fill it.
        BatchError: it did not get each row once.
    """
    number = number_of(connection, topic.table.schema_name, topic.table_name)
    unique = quoted(staging_name(number, of_stream))
    name = f"{quoted(topic.table.schema_name)}.{unique}"
    # Not the rows' own names, which Spark's writer would have to quote.
    columns = {field.name: f"c{place}" for place, field in enumerate(rows.schema)}
    types = ", ".join(f"{columns[f.name]} {_type(f.name, rows, there, keys)}" for f in rows.schema)
    # By its number a row is found among all, for ``halving``.
    numbered = "_row bigint IDENTITY(1,1) PRIMARY KEY"
    connection.execute(f"CREATE TABLE {name} ({numbered}, {types})")
    try:
        _fill(rows, list(columns.values()), topic, name, connection)
        [(held,)] = connection.query(f"SELECT count(*) FROM {name}")
        if held != count:
            raise BatchError(
                f"Of a batch of {topic.name}, {count} rows were sent and {held} have arrived, as "
                "when Spark runs a task twice. Nothing was written. Start again."
            )
        values = {
            column: f"staged.{short}"
            if is_mark(column, keys)
            else from_staged(f"staged.{short}", there[column.lower()].kind)
            for column, short in columns.items()
        }
        yield Staging(name, count, values)
    finally:
        with suppress(DatabaseError):  # the next start removes it, too
            connection.execute(f"DROP TABLE IF EXISTS {name}")


def is_mark(column: str, keys: list[str]) -> bool:
    """True for the column that makes a delete of a row; where there are no keys, none does."""
    return column == "_deleted" and bool(keys)


def unfit(rows: StructType, there: dict[str, Held], keys: list[str]) -> Column:
    """Why a row cannot be staged, in words that have nothing of it in them; null where it can."""
    why: Column = F.lit(None).cast("string")
    for field in rows:
        column, kind = F.col(_quoted(field.name)), field.dataType
        if isinstance(kind, (FloatType, DoubleType)):
            finite = ~F.isnan(column) & (F.abs(column) != F.lit(float("inf")))
            why = F.when(~finite, f"{field.name} is no finite number").otherwise(why)
            tiny = (column != 0) & (F.abs(column) < F.lit(SMALLEST[type(kind)]))
            why = F.when(tiny, f"{field.name} is too close to zero").otherwise(why)
        if isinstance(kind, (DateType, TimestampType, TimestampNTZType)):
            beyond = ~F.year(column).between(1, 9999)
            why = F.when(beyond, f"{field.name} is not of the years 1 to 9999").otherwise(why)
        if field.name in keys and isinstance(kind, StringType):
            why = F.when(column.endswith(" "), f"{field.name} ends in a space").otherwise(why)
            units = F.octet_length(F.encode(column, "UTF-16LE")) / 2
            longest = length_of(there[field.name.lower()].kind)
            if longest:
                long = f"{field.name} has more than {longest} characters"
                why = F.when(units > longest, long).otherwise(why)
    return why


def _type(name: str, rows: DataFrame, there: dict[str, Held], keys: list[str]) -> str:
    """A key of text is staged as the table has it, so that its index is of use."""
    kind = rows.schema[name].dataType
    if name not in keys or not isinstance(kind, StringType):
        return staged_type(kind)
    held = there[name.lower()]
    return f"{held.kind} COLLATE {held.collation}"


def _fill(
    rows: DataFrame, columns: list[str], topic: Topic, name: str, connection: Connection
) -> None:
    database = topic.settings.database
    options = {
        **credentials(topic.settings),
        "url": address(topic.settings),
        "driver": database.driver,
        "dbtable": name,
        "numPartitions": str(database.max_connections),
        "batchsize": str(ROWS_PER_ROUND_TRIP),
    }
    sent = rows.select(*(to_stage(_quoted(f.name), f.dataType) for f in rows.schema))
    try:
        sent.toDF(*columns).write.format("jdbc").mode("append").options(**options).save()
    except (Py4JJavaError, PySparkException) as error:
        # Whatever it is, nothing but this table has been written. What is not the server's own, or
        # is of a row, may hold values: that is in Spark's own log.
        said = what_was_said(error, connection) or DatabaseError(0, "", "")
        names = re.findall(r"\w+(?:Exception|Error)\b", str(error)) or [type(error).__name__]
        why = str(said) if said.code and not said.refuses else names[-1]
        raise DatabaseError(
            said.code,
            said.state,
            f"Spark could not stage the rows: {why}",
            lost=said.lost or not said.code,
        ) from None


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
