"""A database that cannot be trusted, one that makes a batch wait, one whose disk is full."""

import os
import random
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

from orders_pipeline import database, ledger, staging
from orders_pipeline.database import PASSWORD, address, connect, table_of
from orders_pipeline.errors import BatchError, SettingsError

from tests.support.certificates import Authority
from tests.support.database import Database, start_container
from tests.support.pipeline import MakePipeline, Pipeline, bad, event
from tests.support.topics import wait_until

DISKS = ("/copies", "/tables")
"""Folders of the server that are disks of their own, of 16 MB each."""


@pytest.fixture(scope="module")
def server(database: Database) -> Iterator[Database]:
    """A server beside the one of the other tests, with its password: what is done to it is done."""
    with start_container(os.environ[PASSWORD], disks=dict.fromkeys(DISKS, "16m")) as running:
        yield running


def execute(server: Database, statement: str, *values: Any) -> list[tuple[Any, ...]]:
    """Runs a statement in which {} are values."""
    with psycopg.connect(server.url, autocommit=True) as connection:
        done = connection.execute(sql.SQL(statement).format(*values))
        return done.fetchall() if done.description else []


def change_database(pipeline: Pipeline, **changes: Any) -> None:
    changed = pipeline.settings.database.model_copy(update=changes)
    pipeline.settings = pipeline.settings.model_copy(update={"database": changed})


def ids(pipeline: Pipeline) -> list[str]:
    return [row.id for row in pipeline.rows()]


# --- TLS


def show(server: Database, certificate: Path, key: Path) -> None:
    """Has the server speak TLS with this certificate, and returns once it does."""
    for name, file in (("server.crt", certificate), ("server.key", key)):
        lines = "COPY (SELECT regexp_split_to_table({}, '\n')) TO PROGRAM {}"
        execute(server, lines, file.read_text().strip(), f"umask 077; cat > {name}")
    read_at = "SELECT pg_conf_load_time()"
    before = execute(server, read_at)
    execute(server, "ALTER SYSTEM SET ssl = on")
    execute(server, "SELECT pg_reload_conf()")
    wait_until(lambda: execute(server, read_at) > before, 30, "the server has its certificate")


def test_rows_arrive_when_the_certificate_is_the_servers(
    make: MakePipeline, server: Database, tmp_path: Path
) -> None:
    """Sent: two records, to a server that shows a certificate of its name by our authority."""
    ours = Authority(tmp_path, "ours")
    show(server, *ours.certify("server", server.settings["host"]))
    tls = {"ssl_mode": "verify-full", "ca_file": ours.file}
    pipeline = make(database=server.settings | tls)
    pipeline.send(event("a", 1), event("b", 2, partition=1))

    pipeline.drain()

    assert ids(pipeline) == ["a", "b"]


@pytest.mark.parametrize(
    ("host", "authority", "problem"),
    [
        ("another.example", "ours", "does not match host name"),
        (None, "theirs", "certificate verify failed"),
        (None, "none", "root certificate file .* does not exist"),
    ],
)
def test_start_is_refused_when_the_certificate_does_not_verify(
    make: MakePipeline,
    server: Database,
    tmp_path: Path,
    host: str | None,
    authority: str,
    problem: str,
) -> None:
    """Sent: a record. The certificate has another's name, or is of an authority not known here.

    Expected: refused, with the settings to change. Control: the server itself does take the record.
    """
    Authority(tmp_path, "theirs")
    show(server, *Authority(tmp_path, "ours").certify("server", host or server.settings["host"]))
    tls = {"ssl_mode": "verify-full", "ca_file": tmp_path / f"{authority}.pem"}
    pipeline = make(database=server.settings | tls)
    pipeline.send(event("a", 1))

    with pytest.raises(SettingsError, match=problem) as refused:
        pipeline.drain()

    for words in ("Nothing was written", "database.ca_file", "database.ssl_mode, now verify-full"):
        assert words in str(refused.value)
    assert execute(server, "SELECT to_regclass({})", pipeline.topic.table_name) == [(None,)]
    change_database(pipeline, ssl_mode="require")
    pipeline.drain()
    assert ids(pipeline) == ["a"]


def test_server_is_verified_by_the_machines_own_authorities_when_no_file_is_set(
    make: MakePipeline, server: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server shows a certificate by our authority, which the machine then trusts.

    Expected before: refused, though by a file that is there. Where no file is: the settings to
    change. A worker finds its own as the driver does.
    """
    ours = Authority(tmp_path, "ours")
    show(server, *ours.certify("server", server.settings["host"]))
    topic = make(database=server.settings | {"ssl_mode": "verify-full"}).topic
    for name in ("SSL_CERT_FILE", "SSL_CERT_DIR"):
        monkeypatch.delenv(name, raising=False)

    assert Path(database.authorities()).is_file()
    with pytest.raises(SettingsError, match="certificate verify failed"):
        connect(topic)
    monkeypatch.setattr(database, "AUTHORITIES", (str(tmp_path / "none"), str(ours.file)))
    connect(topic).close()
    execute(server, "CREATE TABLE IF NOT EXISTS copied (line text)")
    copy = staging._copier(address(topic.settings), "COPY copied FROM STDIN")
    [done] = copy(iter(()))
    assert done.to_pylist() == [{"rows": 0, "state": None, "problem": None}]
    monkeypatch.setattr(database, "AUTHORITIES", (str(tmp_path / "none"),))
    with pytest.raises(SettingsError, match=r"no authorities .* database\.ca_file"):
        connect(topic)
    monkeypatch.setenv("SSL_CERT_FILE", str(ours.file))
    connect(topic).close()


# --- Slow


def test_start_says_for_whom_it_waits_when_another_writes_the_table(
    make: MakePipeline, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Another session has the writers' lock, as one that a killed process left does."""
    monkeypatch.setattr(database, "SLOW_S", 0.1)
    pipeline = make()
    pipeline.send(event("a", 1))
    pipeline.drain()
    caplog.clear()
    with ThreadPoolExecutor() as beside, connect(pipeline.topic) as holder:
        with holder.transaction():
            ledger.lock(holder, pipeline.topic)
            start = beside.submit(pipeline.drain)
            told = f"waits for a lock of session {holder.info.backend_pid} of "
            wait_until(lambda: told in caplog.text, 60, "the log says who holds the table")
        start.result()


def test_batch_waits_and_says_for_whom_when_the_table_is_locked(
    make: MakePipeline, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Another session locks the table before a batch, and until the log tells of it.

    Sent: two records. Expected: nothing of them before, each once after.
    """
    monkeypatch.setattr(database, "SLOW_S", 0.1)
    pipeline = make()
    pipeline.send(event("first", 1))
    pipeline.drain()
    pipeline.send(event("a", 1), event("b", 2))
    locked = threading.Event()

    def hold() -> list[str]:
        with connect(pipeline.topic) as holder, holder.transaction():
            named = table_of(pipeline.topic)
            holder.execute(sql.SQL("LOCK TABLE {} IN EXCLUSIVE MODE").format(named))
            locked.set()
            told = f"waits for a lock of session {holder.info.backend_pid} of "
            wait_until(lambda: told in caplog.text, 60, "the log says who holds the table")
            return ids(pipeline)

    with ThreadPoolExecutor() as beside:
        before = beside.submit(hold)
        assert locked.wait(60)
        pipeline.drain()

    assert before.result() == ["first"]
    assert ids(pipeline) == ["first", "a", "b"]
    assert f"the write to {pipeline.topic.location} has taken" in caplog.text


# --- Full


@pytest.mark.parametrize("disk", DISKS)
def test_full_disk_stops_the_stream_and_loses_nothing(
    make: MakePipeline, server: Database, disk: str
) -> None:
    """Sent: 6 MB. A disk with room for less has what they are copied into, or the table itself.

    Expected: an error, no row, no dead letter but one of before; with room again, each row once.
    """
    pipeline = make(database=server.settings)
    pipeline.send(bad("bad"), event("first", 1))
    pipeline.drain()
    space = sql.Identifier(f"space of {disk}")
    execute(server, "COPY (SELECT) TO PROGRAM {}", f"mkdir {disk}/space")
    execute(server, "CREATE TABLESPACE {} LOCATION {}", space, f"{disk}/space")
    ten_mb = "SELECT repeat('x', 1000) FROM generate_series(1, 10000)"
    execute(server, "CREATE TABLE filler TABLESPACE {} AS " + ten_mb, space)
    if disk == "/copies":
        execute(server, "ALTER DATABASE postgres SET default_tablespace = {}", space)
    else:
        execute(server, "ALTER TABLE {} SET TABLESPACE {}", table_of(pipeline.topic), space)
    try:
        # Random letters hardly compress.
        letters = random.Random(1)
        names = [f"k{number:03}" for number in range(120)]
        pipeline.send(*(event(each, 1, note=letters.randbytes(25_000).hex()) for each in names))

        with pytest.raises(BatchError, match=r"disk .* is full \(SQLSTATE 53100\).*Nothing of"):
            pipeline.drain()

        assert ids(pipeline) == ["first"]
        execute(server, "DROP TABLE filler")
        pipeline.drain()
    finally:
        execute(server, "ALTER DATABASE postgres RESET default_tablespace")
    assert ids(pipeline) == ["first", *names]
    assert [letter.key for letter in pipeline.letters()] == [b"bad"]
