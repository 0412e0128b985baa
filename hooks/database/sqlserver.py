"""The connection to SQL Server, and what is tried again when it is lost.

It is a JDBC connection in the driver's JVM, of the same driver that Spark's tasks write with.
"""

import logging
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from py4j.java_gateway import is_instance_of
from py4j.protocol import Py4JJavaError
from pyspark import SparkContext

from .database_errors import WRONG_LOGIN, DatabaseError
from .errors import NoAnswerError, SettingsError
from .settings import Settings, Topic

PASSWORD = "PIPELINE_DATABASE_PASSWORD"  # noqa: S105  # the name of it
WAITS_S = (1, 5, 15, 40)
"""Before the second attempt and those after it: a failover may take a minute."""
Result = TypeVar("Result")
log = logging.getLogger(__name__)


class Connection:
    """An open connection; each statement is a transaction, unless in a block of one."""

    def __init__(self, raw: Any) -> None:
        self._raw = raw

    def execute(self, statement: str, *values: Any) -> int:
        """Runs a statement that gives no rows; how many it changed."""
        with self._prepared(statement, values) as prepared:
            return int(prepared.executeUpdate())

    def query(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """The rows that a statement gives."""
        with self._prepared(statement, values) as prepared:
            found, rows = prepared.executeQuery(), []
            width = range(1, found.getMetaData().getColumnCount() + 1)
            while found.next():
                rows.append(tuple(found.getObject(number) for number in width))
            return rows

    @contextmanager
    def transaction(self, keep: bool = True) -> Iterator[None]:
        """What the block does, it does all or nothing; nothing, too, unless ``keep``."""
        with self._translated():
            self._raw.setAutoCommit(False)
        try:
            yield
            with self._translated():
                self._raw.commit() if keep else self._raw.rollback()
        except BaseException:
            self._undo()
            raise
        self._quietly(lambda: self._raw.setAutoCommit(True))

    def is_lost(self) -> bool:
        """True when the server does not answer on it any more."""
        try:
            return bool(self._raw.isClosed()) or not self._raw.isValid(5)
        except Py4JJavaError:
            return True

    def __enter__(self) -> "Connection":
        return self

    def __exit__(self, *_: object) -> None:
        self._quietly(self._raw.close)

    @contextmanager
    def _prepared(self, statement: str, values: tuple[Any, ...]) -> Iterator[Any]:
        with self._translated():
            prepared = self._raw.prepareStatement(statement)
            try:
                for number, value in enumerate(values, 1):
                    prepared.setObject(number, value)
                yield prepared
            finally:
                self._quietly(prepared.close)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except Py4JJavaError as error:
            raise what_was_said(error, self) or error from None

    def _undo(self) -> None:
        """Rolls back, or else closes: ``setAutoCommit`` would commit what is not rolled back."""
        try:
            self._raw.rollback()
            self._raw.setAutoCommit(True)
        except Py4JJavaError as error:
            log.debug("%s", error.java_exception)
            self._quietly(self._raw.close)

    @staticmethod
    def _quietly(action: Callable[[], Any]) -> None:
        """On a connection that is lost, there is nothing left to undo or close."""
        try:
            action()
        except Py4JJavaError as error:
            log.debug("%s", error.java_exception)


def address(settings: Settings) -> str:
    """The JDBC URL; neither the user nor the password is in it."""
    database = settings.database
    if database.url:
        return database.url
    properties = {
        "databaseName": database.name,
        "encrypt": str(database.encrypt).lower(),
        "trustServerCertificate": str(database.trust_server_certificate).lower(),
        "loginTimeout": str(database.connect_timeout_s),
        # A transaction that waits for another's lock is tried again, rather than wait on.
        "lockTimeout": "60000",
        "applicationName": settings.name,
        **database.properties,
    }
    listed = (f"{name}={_in_braces(value)}" for name, value in properties.items())
    return f"jdbc:sqlserver://{database.host}:{database.port};{';'.join(listed)}"


def credentials(settings: Settings) -> dict[str, str]:
    """Who connects, as properties of the driver: never for a log.

    Neither, where another of its properties says how to log in.
    """
    named = {"user": settings.database.user, "password": os.environ.get(PASSWORD, "")}
    return {name: value for name, value in named.items() if value}


def connect(topic: Topic) -> Connection:
    """An open connection.

    Raises:
        NoAnswerError: the database does not answer.
        SettingsError: it does not let this user in; tried again, that could lock the user out.
    """
    database = topic.settings.database
    jvm: Any = SparkContext._jvm
    properties = jvm.java.util.Properties()
    for name, value in credentials(topic.settings).items():
        properties.setProperty(name, value)
    try:
        # Spark's list of drivers: Java's own does not see the jars that Spark was given.
        spark = jvm.org.apache.spark.sql.execution.datasources.jdbc
        spark.DriverRegistry.register(database.driver)
        raw = jvm.java.sql.DriverManager.getConnection(address(topic.settings), properties)
    except Py4JJavaError as error:
        kind = SettingsError if _code(error.java_exception) in WRONG_LOGIN else NoAnswerError
        raise kind(
            f"No connection to the database {database.name} at {database.host}:{database.port} as "
            f"{database.user}: {_first_line(error.java_exception)} Nothing was written. Check the "
            f"section database of the settings, the variable {PASSWORD}, and that the server is "
            "up, then start again."
        ) from None
    return Connection(raw)


def try_again(attempt: Callable[[], Result]) -> Result:
    """Does ``attempt``, and does it again while what stops it passes by: see ``WAITS_S``.

    Raises:
        DatabaseError, NoAnswerError: what stopped the last attempt, or what does not pass by.
    """
    for number, wait_s in enumerate(WAITS_S, 1):
        try:
            return attempt()
        except (DatabaseError, NoAnswerError) as error:
            if isinstance(error, DatabaseError) and not error.passes_by:
                raise
            why = error.reason if isinstance(error, DatabaseError) else type(error).__name__
            log.warning("attempt %d of %d ended: %s", number, len(WAITS_S) + 1, why)
            time.sleep(wait_s)
    return attempt()


def what_was_said(error: Exception, connection: Connection) -> DatabaseError | None:
    """What the database said, of an error in Java that it caused; None where it caused none.

    That may have been said to another than ``connection``: to a task of Spark's.
    """
    java: Any = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    while java is not None:
        if (code := _code(java)) is not None:
            state = str(java.getSQLState() or "")
            return DatabaseError(code, state, _first_line(java), connection.is_lost())
        java = java.getCause()
    return None


def quoted(name: str) -> str:
    """A name as SQL Server takes any: in brackets."""
    return "[" + name.replace("]", "]]") + "]"


def table_of(topic: Topic) -> str:
    """The topic's table, as SQL names it."""
    return f"{quoted(topic.table.schema_name)}.{quoted(topic.table_name)}"


def _in_braces(value: str) -> str:
    """A value in the driver's URL, where ``;`` and the like would end it."""
    return value if re.fullmatch(r"[\w.-]*", value) else "{" + value.replace("}", "}" * 2) + "}"


def _code(java: Any) -> int | None:
    """The database's number of an error in Java; None where it is not of a database."""
    if is_instance_of(SparkContext._gateway, java, "java.sql.SQLException"):
        return int(java.getErrorCode())
    return None


def _first_line(java: Any) -> str:
    return (str(java.getMessage()).splitlines() or ["no more is known"])[0]
