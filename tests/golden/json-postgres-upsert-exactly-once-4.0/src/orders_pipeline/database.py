"""The connection to PostgreSQL, what is tried again when it is lost, and what it waits for."""

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from .errors import NoAnswerError, PipelineError, SettingsError
from .settings import Settings, Topic

PASSWORD = "PIPELINE_DATABASE_PASSWORD"  # noqa: S105  # the name of it
WAITS_S = (1, 5, 15, 40)
"""Before the second attempt and those after it: a failover may take a minute."""
PASSES_BY = ("08", "40", "57P")
"""SQLSTATEs of a lost connection, of a deadlock or a failed serialization, of a shutdown."""
AUTHORITIES = (
    "/etc/ssl/certs/ca-certificates.crt",  # Debian, Alpine
    "/etc/pki/tls/certs/ca-bundle.crt",  # Red Hat
    "/etc/ssl/ca-bundle.pem",  # SUSE
    "/etc/ssl/cert.pem",  # macOS
)
"""Where a machine has the authorities that it trusts."""
NO_TLS = ("certificate verify failed", "server certificate", "root certificate", "not support SSL")
"""What libpq says, among other words, where there is no TLS as the settings want it."""
SLOW_S = 60
"""A write that takes longer is told of in the log, as often as it takes that long again."""
WAITS_FOR = """
    SELECT wait_event_type || ' ' || wait_event, (
        SELECT string_agg(format('session %%s of %%s (%%s)', pid, usename, application_name), ', ')
        FROM pg_stat_activity WHERE pid = ANY (pg_blocking_pids(%(pid)s))
    ) FROM pg_stat_activity WHERE pid = %(pid)s
"""
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
        sslrootcert=str(database.ca_file) if verifies and database.ca_file else None,
        connect_timeout=database.connect_timeout_s,
        # After a failover, a name may lead to the server that only answers questions for a while.
        target_session_attrs="read-write",
        client_encoding="UTF8",
        # A server that is gone without a word is noticed within a minute: by what was sent and not
        # acknowledged or, where an answer is awaited and nothing is sent, by probes.
        tcp_user_timeout=60_000,
        keepalives_idle=30,
        keepalives_interval=10,
        keepalives_count=3,
        application_name=settings.name,
        # The server probes too: the session of a client that is gone keeps its locks until it ends.
        options="-c timezone=UTC -c tcp_keepalives_idle=30 -c tcp_keepalives_interval=10 "
        "-c tcp_keepalives_count=3",
    )


def opened(address: str, autocommit: bool = False) -> Connection:
    """A connection to an ``address``; one that verifies by no ``ca_file`` does by ``authorities``.

    Raises:
        psycopg.OperationalError: there is none.
        SettingsError: see ``authorities``.
    """
    parts = conninfo_to_dict(address)
    if str(parts["sslmode"]).startswith("verify") and "sslrootcert" not in parts:
        address = make_conninfo(address, sslrootcert=authorities())
    return psycopg.connect(address, autocommit=autocommit)


def authorities() -> str:
    """The file of the authorities that this machine trusts, in PEM: ``SSL_CERT_FILE``, if set.

    Not what libpq calls ``system``: that is wherever the machine had them that built it.

    Raises:
        SettingsError: there is none.
    """
    if named := os.environ.get("SSL_CERT_FILE"):
        return named
    if found := next((file for file in AUTHORITIES if Path(file).is_file()), None):
        return found
    raise SettingsError(
        "No TLS with the database: this machine has no authorities to verify the server by, not "
        f"as {' nor as '.join(AUTHORITIES)}. Nothing was written. Install ca-certificates, or set "
        "database.ca_file to the authority that signed the server's certificate. Then start again."
    )


def connect(topic: Topic) -> Connection:
    """An open connection; each statement is a transaction, unless in a block of one.

    Raises:
        NoAnswerError: the database does not answer, or does not let this user in.
        SettingsError: there is no TLS with it as the settings want it.
    """
    try:
        return opened(address(topic.settings), autocommit=True)
    except psycopg.OperationalError as error:
        said = str(error)
    raise no_connection(topic.settings, said)


def no_connection(settings: Settings, said: str) -> NoAnswerError | SettingsError:
    """The error for a connection that was not had, of which libpq has ``said`` why."""
    database, said = settings.database, " ".join(said.split())  # on several lines
    if any(words in said for words in NO_TLS):
        return SettingsError(
            f"No TLS with the database {database.name} at {database.host}:{database.port}: {said}. "
            "Nothing was written. Mend the server's certificate, or set database.ca_file to the "
            "authority that signed it and database.host to a name in it; database.ssl_mode, now "
            f"{database.ssl_mode}, can ask for less. Then start again."
        )
    return NoAnswerError(
        f"No connection to the database {database.name} at {database.host}:{database.port} as "
        f"{database.user}: {said}. Nothing was written. Check the section database of the "
        f"settings, the variable {PASSWORD}, and that the server is up, then start again."
    )


def try_again(attempt: Callable[[], Result]) -> Result:
    """Does ``attempt``, and does it again while what stops it passes by: see ``WAITS_S``.

    Raises:
        psycopg.Error, NoAnswerError: what stopped the last attempt, or what does not pass by.
    """
    for number, wait_s in enumerate(WAITS_S, 1):
        try:
            return attempt()
        except (psycopg.OperationalError, NoAnswerError) as error:
            if isinstance(error, psycopg.Error) and not passes_by(error):
                raise
            log.warning(
                "attempt %d of %d ended: %s", number, len(WAITS_S) + 1, type(error).__name__
            )
            time.sleep(wait_s)
    return attempt()


def passes_by(error: psycopg.Error) -> bool:
    """True for a lost connection, a deadlock and their like; not for a row that is refused."""
    lost = isinstance(error, psycopg.OperationalError) and error.sqlstate is None
    return lost or (error.sqlstate or "").startswith(PASSES_BY)


@contextmanager
def told_while_slow(connection: Connection, topic: Topic) -> Iterator[None]:
    """While the block's write takes long, the log says what the connection waits for."""
    ended, began = threading.Event(), time.monotonic()
    session = connection.info.backend_pid

    def tell() -> None:
        while not ended.wait(SLOW_S):
            log.warning(
                "the write to %s has taken %.0f s: the database %s. It goes on, and nothing of it "
                "is in the table before it ends",
                *(topic.location, time.monotonic() - began, _awaited(topic, session)),
            )

    threading.Thread(target=tell, daemon=True).start()
    try:
        yield
    finally:
        ended.set()


def _awaited(topic: Topic, session: int) -> str:
    """What a session waits for, asked by a connection of its own."""
    try:
        with connect(topic) as asking:
            found = asking.execute(WAITS_FOR, {"pid": session}).fetchone()
    except (psycopg.Error, PipelineError) as error:
        return f"does not say what it waits for ({type(error).__name__})"
    event, holders = found or (None, None)
    if holders:
        return f"waits for a lock of {holders}"
    return f"waits for {event}" if event else "is at work"


def table_of(topic: Topic) -> sql.Identifier:
    """The topic's table, as SQL names it."""
    return sql.Identifier(topic.table.schema_name, topic.table_name)
