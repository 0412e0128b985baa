"""A table of one batch's rows beside the topic's own, filled by the tasks of Spark with COPY.

Its columns are text and nothing constrains them, so that whatever the topic's table refuses, it
refuses in one statement on the driver, where the row can be found. Only a NUL character, which no
PostgreSQL text holds, ends a COPY.
"""

import uuid
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import psycopg
import pyarrow as pa
import pyarrow.csv
from psycopg import sql
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StringType

from . import table
from .batch import Refused
from .column_types import as_text, from_text
from .database import Connection, address, opened
from .errors import BatchError
from .settings import Topic

COPIED = "rows BIGINT, state STRING, problem STRING"
"""What a task gives back: the rows that it copied; the SQLSTATE and name of what ended it early."""
NUL = "the text in it holds a NUL character"


@dataclass(frozen=True)
class Staging:
    """Rows that wait to be merged, each value as text."""

    name: sql.Identifier
    rows: int
    values: dict[str, sql.Composed]
    """For each of the rows' columns its value, from a row of this table called ``staged``."""


Choose = Callable[[DataFrame, dict[str, str]], DataFrame]
"""Which of the rows are merged; it is told the table's columns, with their types."""
Apply = Callable[[Connection, Topic, Staging, sql.Composable], tuple[int, int]]
"""Merges staged rows for which a condition holds; how many it wrote, and how many it deleted."""


class NulError(Exception):
    """Some rows hold a NUL character."""


@contextmanager
def staged(
    rows: DataFrame, choose: Choose, topic: Topic, connection: Connection
) -> Iterator[Staging]:
    """A table with those of the *rows* (``shapes.py``) that ``choose`` gives, while the block runs.

    Those that a process left whose session is gone are removed first.

    Raises:
        NulError: some rows hold a NUL character.
        psycopg.Error: what ended the COPY of a task, by its SQLSTATE.
        BatchError: the table did not get each row once.
    """
    there = table.columns_of(connection, topic)
    rows = choose(rows, there)
    prefix = f"_ingest_{table.oid(connection, topic)}_"
    _remove_left(connection, topic, prefix)
    # Not what the client was told: behind a pooler that is a number of the pooler's.
    [session] = connection.execute("SELECT pg_backend_pid()").fetchone() or [None]
    unique = f"{prefix}{session}_{uuid.uuid4().hex}"
    name = sql.Identifier(topic.table.schema_name, unique)
    columns = [sql.Identifier(column) for column in rows.columns]
    definitions = sql.SQL(", ").join(sql.SQL("{} text").format(column) for column in columns)
    connection.execute(sql.SQL("CREATE UNLOGGED TABLE {} ({})").format(name, definitions))
    try:
        copied = _copy(rows, topic, name, columns)
        count = connection.execute(sql.SQL("SELECT count(*) FROM {}").format(name))
        [held] = count.fetchone() or [0]
        if held != copied:
            raise BatchError(
                f"Of a batch of {topic.name}, {copied} rows were sent and {held} have arrived, as "
                "when Spark runs a task twice. Nothing was written. Start again."
            )
        values = {c: from_text(c, there.get(c, "boolean")) for c in rows.columns}
        yield Staging(name, copied, values)
    finally:
        with suppress(psycopg.OperationalError):  # it is removed before the next, too
            connection.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(name))


def rows_with_nul(rows: DataFrame, limit: int) -> list[Refused]:
    """The rows with a NUL character in a text, ``limit`` of them at most.

    Not those that have it deeper, where it is JSON's ``\\u0000``: that passes a COPY.
    """
    texts = [_quoted(f.name) for f in rows.schema if isinstance(f.dataType, StringType)]
    has_nul: Column = F.lit(False)
    for text in texts:
        has_nul |= F.coalesce(F.contains(F.col(text), F.lit("\0")), F.lit(False))
    found = rows.where(has_nul).select("_partition", "_offset").limit(limit).collect()
    return [Refused(row[0], row[1], NUL) for row in found]


def without(rows: DataFrame, refused: list[Refused]) -> DataFrame:
    """The rows but for those that were refused."""
    if not refused:
        return rows
    kept: Column = F.lit(True)
    for partition in {each.partition for each in refused}:
        offsets = [each.offset for each in refused if each.partition == partition]
        kept &= ~((F.col("_partition") == partition) & F.col("_offset").isin(offsets))
    return rows.where(kept)


def _copy(
    rows: DataFrame, topic: Topic, name: sql.Identifier, columns: list[sql.Identifier]
) -> int:
    texts = rows.select(*(as_text(_quoted(f.name), f.dataType).alias(f.name) for f in rows.schema))
    statement = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT csv)").format(
        name, sql.SQL(", ").join(columns)
    )
    limited = texts.coalesce(topic.settings.database.max_connections)
    copier = _copier(address(topic.settings), statement.as_string())
    done = limited.mapInArrow(copier, COPIED).collect()
    for row in done:
        if (row.state or "").startswith("22"):
            raise NulError
        if row.problem:
            raise _error(row.state, row.problem)
    return sum(row.rows for row in done)


def _error(state: str | None, problem: str) -> psycopg.Error:
    """What a task met, as the driver would: so that a full disk is no lost connection."""
    try:
        return psycopg.errors.lookup(state or "")(problem)
    except KeyError:  # a connection that was lost has none
        return psycopg.OperationalError(problem)


def _copier(
    address: str, statement: str
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def copy(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        options = pa.csv.WriteOptions(include_header=False)
        count, state, problem = 0, None, None
        try:
            with (
                opened(address) as connection,
                connection.cursor().copy(statement) as target,
            ):
                for batch in batches:
                    text = pa.BufferOutputStream()
                    pa.csv.write_csv(batch, text, options)
                    target.write(text.getvalue().to_pybytes())
                    count += batch.num_rows
        except psycopg.Error as error:
            state, problem = error.sqlstate, type(error).__name__
            deque(batches, maxlen=0)  # records are counted as they pass: all of them have to
        done = {"rows": [count], "state": [state], "problem": [problem]}
        shape = pa.schema([("rows", pa.int64()), ("state", pa.string()), ("problem", pa.string())])
        yield pa.RecordBatch.from_pydict(done, shape)

    return copy


def _remove_left(connection: Connection, topic: Topic, prefix: str) -> None:
    tables = sql.SQL("SELECT tablename FROM pg_tables WHERE schemaname = {}")
    # The tables first: of one that is made meanwhile the session would seem gone.
    names = connection.execute(tables.format(topic.table.schema_name)).fetchall()
    sessions = {str(pid) for (pid,) in connection.execute("SELECT pid FROM pg_stat_activity")}
    for (name,) in names:
        session = name.removeprefix(prefix).split("_")[0]
        if name.startswith(prefix) and session not in sessions:
            left = sql.Identifier(topic.table.schema_name, name)
            connection.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(left))


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
