"""What stands in for SQL Server in tests and the demo: H2, in its mode of that name.

It reads T-SQL as far as this pipeline speaks it, keeps types, constraints and transactions, and is
not SQL Server: what locks, collations and error numbers do there, it does not show. So every
statement is also read by sqlglot as T-SQL, before H2 gets it.

``DATABASE_URL`` names an H2 that runs already, whose driver Spark's JVM then has.
With ``SQLSERVER_URL`` in the environment the tests run on a real server instead, in a database
that they may fill: ``jdbc:sqlserver://host:1433;databaseName=d;encrypt=true``; as the user
``SQLSERVER_USER``, with the password in ``PIPELINE_DATABASE_PASSWORD``.
"""

import os
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import sqlglot
from sqlglot import exp

from orders_pipeline import database as jdbc
from orders_pipeline.database import PASSWORD

from .kafka_jvm import JvmProcess, fetched, quick_java, say

H2_VERSION = "2.4.240"
DRIVER = "org.h2.Driver"
NOT_RUN = "NOT RUN against a real one (SQLSERVER_URL names none): H2 stood in for it."

_IVY_MODULE = """\
<ivy-module version="2.0">
  <info organisation="tests" module="h2"/>
  <dependencies>
    <dependency org="com.h2database" name="h2" rev="{version}" conf="default->master"/>
  </dependencies>
</ivy-module>
"""


class DatabaseUnavailableError(RuntimeError):
    """No database could be started or reached; the message says what happened."""


@dataclass(frozen=True)
class Database:
    """A database that answers, by its JDBC URL."""

    url: str
    user: str
    driver: str

    @property
    def settings(self) -> dict[str, Any]:
        """What the pipeline's section ``database`` says of it."""
        return {"url": self.url, "user": self.user, "driver": self.driver}


@contextmanager
def start_database(timeout_s: float = 60) -> Iterator[Database]:
    """A running database, stopped at the end of the block if it was started here.

    To be called before Spark's JVM is there, which gets H2's driver by its class path.

    Raises:
        DatabaseUnavailableError: if there is none within ``timeout_s``; never a skipped test.
    """
    if is_real():
        os.environ["DATABASE_RAN_IN"] = "the real one that SQLSERVER_URL names."
        driver = "com.microsoft.sqlserver.jdbc.SQLServerDriver"
        yield Database(os.environ["SQLSERVER_URL"], os.environ.get("SQLSERVER_USER", "sa"), driver)
        return
    os.environ["DATABASE_RAN_IN"] = NOT_RUN
    os.environ[PASSWORD] = "h2"
    speak_to_h2()
    if url := os.environ.get("DATABASE_URL"):
        yield Database(url, "sa", DRIVER)
        return
    process = JvmProcess("h2")
    try:
        try:
            database = _started(process, time.monotonic() + timeout_s)
        except RuntimeError as error:
            raise DatabaseUnavailableError(f"No H2 could be started: {error}") from error
        yield database
    finally:
        process.stop()


def is_real() -> bool:
    """True when the tests run on SQL Server itself."""
    return "SQLSERVER_URL" in os.environ


def speak_to_h2() -> None:
    """From now on in this process, H2 gets each statement as it can read it: the one such place."""
    prepared = jdbc.Connection._prepared

    def prepared_for_h2(connection: jdbc.Connection, statement: str, values: Any) -> Any:
        return prepared(connection, as_h2_reads(statement), values)

    jdbc.Connection._prepared = prepared_for_h2  # type: ignore[method-assign, assignment]


@cache
def as_h2_reads(statement: str) -> str:
    """A statement without what H2 does not know, once it was read as T-SQL with it."""
    [parsed] = filter(None, sqlglot.parse(statement, read="tsql"))
    assert not isinstance(parsed, exp.Command), f"sqlglot cannot read as T-SQL: {statement}"
    return re.sub(r" COLLATE \w+| WITH \(HOLDLOCK, UPDLOCK\)", "", statement)


H2_OPTIONS = [
    "MODE=MSSQLServer",
    "DATABASE_TO_UPPER=FALSE",
    "CASE_INSENSITIVE_IDENTIFIERS=TRUE",
    "LOCK_TIMEOUT=20000",
    "DB_CLOSE_DELAY=-1",
]


def _as_sql_server() -> list[str]:
    """Views that answer as SQL Server's own do, from what H2 knows of its tables.

    H2 numbers no tables, so a table's number is made of its name, and of how often ``drop_table``
    has removed one of that name.
    """
    types = {
        "CHARACTER VARYING": "nvarchar",
        "BINARY VARYING": "varbinary",
        "BOOLEAN": "bit",
        "SMALLINT": "smallint",
        "INTEGER": "int",
        "BIGINT": "bigint",
        "REAL": "real",
        "DOUBLE PRECISION": "float",
        "NUMERIC": "decimal",
        "DATE": "date",
        "TIMESTAMP WITH TIME ZONE": "datetimeoffset",
        "TIMESTAMP": "datetime2",
    }
    name = "TABLE_SCHEMA || '.' || TABLE_NAME"
    dropped = f"COALESCE((SELECT times FROM sys.dropped WHERE name = {name}), 0)"
    number = f"(MOD(ORA_HASH({name}), 2000000) * 1000 + {dropped})"
    return [
        "CREATE SCHEMA IF NOT EXISTS dbo",
        "CREATE SCHEMA IF NOT EXISTS sys",
        "CREATE TABLE IF NOT EXISTS sys.dropped (name nvarchar(300) PRIMARY KEY, times int)",
        "CREATE ALIAS IF NOT EXISTS SYSDATETIMEOFFSET FOR 'java.time.OffsetDateTime.now()'",
        "CREATE VIEW IF NOT EXISTS sys.schemas AS SELECT SCHEMA_NAME AS name, "
        "SCHEMA_NAME AS schema_id FROM INFORMATION_SCHEMA.SCHEMATA",
        "CREATE VIEW IF NOT EXISTS sys.tables AS SELECT TABLE_NAME AS name, "
        f"TABLE_SCHEMA AS schema_id, {number} AS object_id FROM INFORMATION_SCHEMA.TABLES",
        "CREATE VIEW IF NOT EXISTS sys.types (user_type_id, name) AS VALUES "
        + ", ".join(f"('{theirs}', '{name}')" for theirs, name in types.items()),
        f"CREATE VIEW IF NOT EXISTS sys.columns AS SELECT {number} AS object_id, "
        "COLUMN_NAME AS name, ORDINAL_POSITION AS column_id, DATA_TYPE AS user_type_id, "
        "CASE WHEN CHARACTER_MAXIMUM_LENGTH = 1000000000 THEN -1 WHEN DATA_TYPE LIKE 'CHAR%' "
        "THEN 2 * CHARACTER_MAXIMUM_LENGTH ELSE CHARACTER_MAXIMUM_LENGTH END AS max_length, "
        "NUMERIC_PRECISION AS precision, COALESCE(NUMERIC_SCALE, DATETIME_PRECISION) AS scale, "
        "CASE WHEN DATA_TYPE LIKE 'CHAR%' THEN 'Latin1_General_100_BIN2' END AS collation_name, "
        "CASE IS_NULLABLE WHEN 'YES' THEN 1 ELSE 0 END AS is_nullable, "
        "CASE IS_IDENTITY WHEN 'YES' THEN 1 ELSE 0 END AS is_identity, "
        "CASE IS_GENERATED WHEN 'ALWAYS' THEN 1 ELSE 0 END AS is_computed, "
        "CASE WHEN COLUMN_DEFAULT IS NULL THEN 0 ELSE 1 END AS default_object_id, "
        "0 AS generated_always_type "
        "FROM INFORMATION_SCHEMA.COLUMNS",
        f"CREATE VIEW IF NOT EXISTS sys.indexes AS SELECT {number} AS object_id, "
        "INDEX_NAME AS index_id, CASE WHEN INDEX_TYPE_NAME IN ('PRIMARY KEY', 'UNIQUE INDEX') "
        "THEN 1 ELSE 0 END AS is_unique, 0 AS has_filter, 0 AS is_disabled "
        "FROM INFORMATION_SCHEMA.INDEXES",
        f"CREATE VIEW IF NOT EXISTS sys.index_columns AS SELECT {number} AS object_id, "
        "INDEX_NAME AS index_id, (SELECT ORDINAL_POSITION FROM INFORMATION_SCHEMA.COLUMNS AS c "
        "WHERE c.TABLE_SCHEMA = i.TABLE_SCHEMA AND c.TABLE_NAME = i.TABLE_NAME "
        "AND c.COLUMN_NAME = i.COLUMN_NAME) AS column_id, 0 AS is_included_column "
        "FROM INFORMATION_SCHEMA.INDEX_COLUMNS AS i",
    ]


def _started(process: JvmProcess, deadline: float) -> Database:
    folder = fetched("h2", H2_VERSION, _IVY_MODULE.format(version=H2_VERSION))
    jar = str(folder / f"h2-{H2_VERSION}.jar")
    os.environ["PYSPARK_SUBMIT_ARGS"] = f"--driver-class-path {jar} pyspark-shell"
    java = quick_java("-Xmx512m", "-Dh2.bindAddress=127.0.0.1", "-cp", jar)
    say("Starting H2 in the place of SQL Server ...")
    process.start([*java, "org.h2.tools.Server", "-tcp", "-tcpPort", "0", "-ifNotExists"])
    address = _wait_until_it_listens(process, deadline)
    url = ";".join([f"jdbc:h2:{address}/mem:tests", *H2_OPTIONS])
    _make_views([*java, "org.h2.tools.Shell", "-url", url, "-user", "sa"])
    return Database(url, "sa", DRIVER)


def _wait_until_it_listens(process: JvmProcess, deadline: float) -> str:
    while time.monotonic() < deadline:
        if (log := process.failure()) is not None:
            raise RuntimeError(f"it exited: {log}")
        if found := re.search(r"running at tcp://[^:]+:(\d+)", process.log()):
            return f"tcp://127.0.0.1:{found[1]}"
        time.sleep(0.05)
    raise RuntimeError(f"it did not start in time. Its log: {process.log()[-2000:]}")


def _make_views(shell: list[str]) -> None:
    statements = ";".join(_as_sql_server())
    command = [*shell, "-password", os.environ[PASSWORD], "-sql", statements]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(done.stdout + done.stderr)
