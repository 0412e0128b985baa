"""A table of one batch's rows beside the topic's own, filled by the tasks of Spark with COPY.

Its columns are text and nothing constrains them, so that whatever the topic's table refuses, it
refuses in one statement on the driver, where the row can be found. What would end a COPY, or be
another value after it, is left out before: see ``column_types.unfit``.
"""

import logging
import uuid
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import psycopg
import pyarrow as pa
import pyarrow.csv
from psycopg import sql
from pyspark.sql import DataFrame

from . import table
from .column_types import as_text, from_text, quoted
from .database import Connection, address, no_connection, opened
from .errors import BatchError, SettingsError
from .settings import Topic

COPIED = "rows BIGINT, state STRING, problem STRING"
"""What a task gives back: the rows that it copied; the SQLSTATE and name of what ended it early."""
NOT_CONNECTED = "08001"
"""The SQLSTATE for no connection; the name is then what libpq says, which holds no row's values."""
PATIENCE = "5s"
"""As long the removal of a staging table waits for who else has it, such as a dump."""
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Staging:
    """Rows that wait to be merged, each value as text."""

    name: sql.Identifier
    rows: int
    values: dict[str, sql.Composed]
    """For each of the rows' columns its value, from a row of this table called ``staged``."""


Merge = Callable[[sql.Composable], tuple[int, int]]
"""Merges staged rows for which a condition holds; how many it wrote, and how many it deleted."""
Begin = Callable[[Connection, Topic, Staging], Merge]
"""What a transaction does before it merges: once, however many conditions are tried in it."""


@contextmanager
def staged(
    rows: DataFrame, topic: Topic, connection: Connection, there: dict[str, str]
) -> Iterator[Staging]:
    """A table with these *rows* (``shapes.py``), for the length of the block.

    None of them is ``unfit``; ``there`` are the columns of the topic's table. The tables that a
    process left whose session is gone are removed first.

    Raises:
        NoAnswerError, SettingsError: a task has no connection: see ``database.connect``.
        psycopg.Error: what ended the COPY of a task, by its SQLSTATE.
        BatchError: the table did not get each row once.
    """
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
        _remove(connection, name)


def _copy(
    rows: DataFrame, topic: Topic, name: sql.Identifier, columns: list[sql.Identifier]
) -> int:
    texts = rows.select(*(as_text(quoted(f.name), f.dataType).alias(f.name) for f in rows.schema))
    statement = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT csv)").format(
        name, sql.SQL(", ").join(columns)
    )
    limited = texts.coalesce(topic.settings.database.max_connections)
    copier = _copier(address(topic.settings), statement.as_string())
    done = limited.mapInArrow(copier, COPIED).collect()
    for row in done:
        if row.state == NOT_CONNECTED:
            raise no_connection(topic.settings, row.problem)
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
            connection = opened(address)
        except (psycopg.OperationalError, SettingsError) as error:
            state, problem = NOT_CONNECTED, str(error)
        else:
            try:
                with connection, connection.cursor().copy(statement) as target:
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
            _remove(connection, sql.Identifier(topic.table.schema_name, name))


def _remove(connection: Connection, name: sql.Identifier) -> None:
    """Removes a staging table; what is not to be had now stays until a later batch."""
    try:
        with connection.transaction():
            connection.execute(sql.SQL("SET LOCAL lock_timeout = {}").format(PATIENCE))
            connection.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(name))
    except psycopg.Error as error:
        log.warning("%s stays until a later batch: %s", name.as_string(), type(error).__name__)
