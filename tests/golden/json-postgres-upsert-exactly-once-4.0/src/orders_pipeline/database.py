"""The connection to PostgreSQL, and what is tried again when it is lost."""

import logging
import os
import time
from collections.abc import Callable
from typing import Any, TypeVar

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from .errors import NoAnswerError
from .settings import Settings, Topic

PASSWORD = "PIPELINE_DATABASE_PASSWORD"  # noqa: S105  # the name of it
ATTEMPTS = 5
PASSES_BY = ("08", "40", "57P")
"""SQLSTATEs of a lost connection, of a deadlock or a failed serialization, of a shutdown."""
Connection = psycopg.Connection[tuple[Any, ...]]
Result = TypeVar("Result")
log = logging.getLogger(__name__)


def address(settings: Settings) -> str:
    """What libpq connects by, the password in it: never for a log."""
    database = settings.database
    verifies = database.ssl_mode.startswith("verify")
    return make_conninfo(
        host=database.host,
        port=database.port,
        dbname=database.name,
        user=database.user,
        password=os.environ.get(PASSWORD),
        sslmode=database.ssl_mode,
        sslrootcert=str(database.ca_file or "system") if verifies else None,
        connect_timeout=database.connect_timeout_s,
        # A server that is gone without a word is noticed within a minute.
        tcp_user_timeout=60_000,
        application_name=settings.name,
        options="-c timezone=UTC",
    )


def connect(topic: Topic) -> Connection:
    """An open connection; each statement is a transaction, unless in a block of one.

    Raises:
        NoAnswerError: the database does not answer, or does not let this user in.
    """
    database = topic.settings.database
    try:
        return psycopg.connect(address(topic.settings), autocommit=True)
    except psycopg.OperationalError as error:
        raise NoAnswerError(
            f"No connection to the database {database.name} at {database.host}:{database.port} as "
            f"{database.user}: {_line(error)}. Nothing was written. Check the section database of "
            f"the settings, the variable {PASSWORD}, and that the server is up, then start again."
        ) from None


def _line(error: psycopg.Error) -> str:
    """What libpq says, on one line."""
    return " ".join(str(error).split())


def try_again(attempt: Callable[[], Result]) -> Result:
    """Does ``attempt``, and does it again while what stops it passes by; up to ``ATTEMPTS`` times.

    Raises:
        psycopg.Error, NoAnswerError: what stopped the last attempt, or what does not pass by.
    """
    for number in range(1, ATTEMPTS):
        try:
            return attempt()
        except (psycopg.OperationalError, NoAnswerError) as error:
            if isinstance(error, psycopg.Error) and not passes_by(error):
                raise
            log.warning("attempt %d of %d ended: %s", number, ATTEMPTS, type(error).__name__)
            time.sleep(min(0.5 * 2**number, 10))
    return attempt()


def passes_by(error: psycopg.Error) -> bool:
    """True for a lost connection, a deadlock and their like; not for a row that is refused."""
    lost = isinstance(error, psycopg.OperationalError) and error.sqlstate is None
    return lost or (error.sqlstate or "").startswith(PASSES_BY)


def table_of(topic: Topic) -> sql.Identifier:
    """The topic's table, as SQL names it."""
    return sql.Identifier(topic.table.schema_name, topic.table_name)
