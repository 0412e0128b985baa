"""What SQL Server may do to a batch: refuse a row, lose the connection, let another writer in.

H2 stands in for it, unless SQLSERVER_URL names a real one: see ``tests/support/database.py``.
"""

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import Row
from pyspark.sql import functions as F

from orders_pipeline import (
    backfill,
    catalog,
    database,
    delivery,
    ledger,
    merging,
    sink,
    staging,
    table,
)
from orders_pipeline.batch import Batch, Refused
from orders_pipeline.catalog import number_of, tables_of
from orders_pipeline.database import (
    PASSWORD,
    Connection,
    connect,
    table_of,
)
from orders_pipeline.database_errors import DatabaseError
from orders_pipeline.errors import (
    BatchError,
    NoAnswerError,
    RefusedError,
    SettingsError,
    StorageError,
)
from orders_pipeline.leftovers import staging_name
from orders_pipeline.settings import Topic

from tests.support.database import NOT_RUN, is_real
from tests.support.pipeline import MakePipeline, Pipeline, event
from tests.support.tables import read_table
from tests.support.topics import wait_until
from tests.support.transforms import transform_to

KEY = "id nvarchar(9) COLLATE Latin1_General_100_BIN2 NOT NULL PRIMARY KEY"
"""A server's usual collation is refused for a key; H2 has none."""


def execute(pipeline: Pipeline, statement: str) -> int:
    """Runs a statement in which {} is the topic's table."""
    with connect(pipeline.topic) as connection:
        return connection.execute(statement.replace("{}", table_of(pipeline.topic)))


def set_database(pipeline: Pipeline, **changes: Any) -> None:
    """Changes the pipeline's settings of the database."""
    own = pipeline.settings.database.model_copy(update=changes)
    pipeline.settings = pipeline.settings.model_copy(update={"database": own})


def ids(pipeline: Pipeline) -> list[str]:
    return sorted(row.id for row in pipeline.rows())


def refused(pipeline: Pipeline) -> dict[bytes | None, bytes | None]:
    """The dead letters: key and message of those that the table refused."""
    name = "__connect.errors.exception."
    return {
        letter.key: letter.headers[name + "message"]
        for letter in pipeline.letters()
        if letter.headers[name + "class.name"] == b"refused"
    }


def test_batch_arrives_in_a_real_sql_server(make: MakePipeline) -> None:
    """With SQLSERVER_URL all tests of this folder run on a real server. This one says whether."""
    if not is_real():
        pytest.skip(f"SQL Server: {NOT_RUN}")
    pipeline = make()
    pipeline.send(event("a", 1, note="ü\0"), event("b", 2, partition=1))
    pipeline.drain()

    with connect(pipeline.topic) as connection:
        [(version,)] = connection.query("SELECT @@VERSION")
    assert "Microsoft" in version
    assert [(row.id, row.note) for row in pipeline.rows()] == [("a", "ü\0"), ("b", None)]


def test_row_that_breaks_a_constraint_alone_is_refused_and_comes_back(make: MakePipeline) -> None:
    """The table says amount < 100. Sent: 200 among others. Then the constraint goes: replay."""
    pipeline = make()
    pipeline.send(event("first", 1))
    pipeline.drain()
    execute(pipeline, "ALTER TABLE {} ADD CONSTRAINT small CHECK (amount < 100)")
    pipeline.send(*(event(f"k{n}", n) for n in range(5)), event("large", 200), event("last", 6))

    pipeline.drain()

    assert ids(pipeline) == ["first", *(f"k{n}" for n in range(5)), "last"]
    [(key, message)] = refused(pipeline).items()
    assert key == b"large"
    assert message
    assert b"(small)" in message
    assert b"200" not in message
    with pytest.MonkeyPatch.context() as patch:
        # A replay may lose as many as all batches together, each of which may lose less.
        patch.setattr(merging, "MAX_REFUSED", 0)
        backfill.replay(pipeline.spark, pipeline.topic, reason="refused", since_ms=0)
        patch.setattr(merging, "MAX_REFUSED_IN_A_FILL", 0)
        with pytest.raises(BatchError, match="more than 0 of a batch"):
            backfill.replay(pipeline.spark, pipeline.topic, reason="refused", since_ms=0)
    execute(pipeline, "ALTER TABLE {} DROP CONSTRAINT small")
    for _ in range(2):
        backfill.replay(pipeline.spark, pipeline.topic, reason="refused", since_ms=0)
    assert ids(pipeline) == sorted(["first", *(f"k{n}" for n in range(5)), "large", "last"])
    assert all(balance.holds for balance in pipeline.balances)


def test_value_that_sql_server_has_no_place_for_alone_is_refused(
    make: MakePipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A transform divides: some records give infinity, NaN, next to nothing, or a far day.

    Sent: in all more of them than the table itself may refuse.
    """
    pipeline = make(breaker={"min_rejected": 1_000})
    share = "CASE id WHEN 'b' THEN double('Infinity') WHEN 'd' THEN 1e-310 WHEN 'e' THEN 0D "
    share += "WHEN 'a' THEN 0.5D WHEN 'f' THEN 1D ELSE double('NaN') END"
    due = "CASE id WHEN 'f' THEN make_date(10000, 1, 1) ELSE DATE'9999-12-31' END"
    transform_to(monkeypatch, share=F.expr(share), due=F.expr(due))
    pipeline.send(*(event(key, 1) for key in "abcdef"), *(event(f"n{n}", n) for n in range(100)))

    pipeline.drain()

    rows = [(row.id, row.share, str(row.due)) for row in pipeline.rows()]
    assert rows == [("a", 0.5, "9999-12-31"), ("e", 0, "9999-12-31")]
    infinite = [b"b", b"c", *(b"n%d" % n for n in range(100))]
    assert refused(pipeline) == dict.fromkeys(infinite, b"share is no finite number") | {
        b"d": b"share is too close to zero",
        b"f": b"due is not of the years 1 to 9999",
    }
    assert pipeline.balances[-1].holds


def test_key_that_sql_server_would_take_for_another_alone_is_refused(make: MakePipeline) -> None:
    """Sent: a key, the same with a space at its end, in another case, and one that is too long."""
    pipeline = make()
    long = "x" * 449 + "\U0001f600"  # 450 characters to us, 451 to UTF-16
    pipeline.send(event("a", 1), event("A", 2), event(long[1:], 3))
    pipeline.send(
        (b"space", {"id": "a ", "amount": 4}, [], 0), (b"long", {"id": long, "amount": 4}, [], 0)
    )

    pipeline.drain()

    assert ids(pipeline) == sorted(["a", "A", long[1:]])
    assert refused(pipeline) == {
        b"space": b"id ends in a space",
        b"long": b"id has more than 450 characters",
    }
    assert pipeline.balances[-1].holds


def test_older_record_of_a_key_counts_when_its_newest_is_refused(make: MakePipeline) -> None:
    """The table says amount < 100. Sent: 1, then 200 for the same key, in one batch."""
    pipeline = make()
    pipeline.send(event("other", 1))
    pipeline.drain()
    execute(pipeline, "ALTER TABLE {} ADD CONSTRAINT small CHECK (amount < 100)")
    pipeline.send(event("k", 1), event("k", 200))

    pipeline.drain()

    execute(pipeline, "ALTER TABLE {} DROP CONSTRAINT small")  # by which another may be called
    assert {row.id: row.amount for row in pipeline.rows()} == {"other": 1, "k": 1}
    assert set(refused(pipeline)) == {b"k"}
    assert pipeline.balances[-1].holds


def test_row_from_before_the_pipeline_is_older_than_any_record(make: MakePipeline) -> None:
    """The table has rows that no record made. Sent: an update, a delete, a delete of none."""
    pipeline = make()
    execute(pipeline, "CREATE TABLE {} (" + KEY + ", amount int)")
    execute(pipeline, "INSERT INTO {} (id, amount) VALUES ('a', 1), ('b', 1), ('c', 1)")
    pipeline.send(event("a", 2), (b"b", None, [], 0), (b"none", None, [], 0))

    pipeline.drain()

    assert {row.id: row.amount for row in pipeline.rows()} == {"a": 2, "c": 1}
    [balance] = pipeline.balances
    assert (balance.written, balance.deleted, balance.stale) == (1, 1, 1)


def test_row_from_before_the_pipeline_stays_when_its_own_clock_is_later(make: MakePipeline) -> None:
    """By the records' own clock: of four such rows one is later, one equal, one earlier, one unset.

    ``newest_by`` is in another case than the column, which Spark does not see.
    """
    pipeline = make(table={"newest_by": "Changed_At"})
    pipeline.write_schema("id STRING NOT NULL, amount INT NOT NULL, changed_at TIMESTAMP NOT NULL")
    execute(pipeline, "CREATE TABLE {} (" + KEY + ", amount int, changed_at datetimeoffset(6))")
    execute(
        pipeline,
        "INSERT INTO {} (id, amount, changed_at) VALUES ('earlier', 1, '2026-01-01 00:00:00+00:00')"
        ", ('equal', 1, '2026-01-02 00:00:00+00:00'), ('later', 1, '2026-01-03 00:00:00+00:00')"
        ", ('unset', 1, NULL)",
    )
    moment = datetime(2026, 1, 2, tzinfo=UTC)
    names = ("earlier", "equal", "later", "unset")
    pipeline.send(*(event(name, 2, changed_at=moment) for name in names))

    pipeline.drain()

    amounts = {row.id: row.amount for row in pipeline.rows()}
    assert amounts == {"earlier": 2, "equal": 2, "later": 1, "unset": 2}
    assert pipeline.balances[-1].stale == 1


def wait_less_for_locks(pipeline: Pipeline) -> None:
    """From now on, no statement of the pipeline's waits for longer than 0.3 s."""
    url = str(pipeline.settings.database.url).replace("LOCK_TIMEOUT=20000;", "")
    set_database(pipeline, url=url + (";lockTimeout=300" if is_real() else ";LOCK_TIMEOUT=300"))


def test_lock_that_is_not_had_in_time_is_tried_again(
    make: MakePipeline, caplog: pytest.LogCaptureFixture
) -> None:
    """Another transaction holds a row of the batch for longer than the batch waits for it."""
    pipeline = make()
    wait_less_for_locks(pipeline)
    pipeline.send(event("a", 1), event("b", 1))
    pipeline.drain()
    pipeline.send(event("a", 2), event("b", 2))
    ended = "attempt 1 of 5 ended: "

    def hold() -> None:
        with connect(pipeline.topic) as connection, connection.transaction():
            change = f"UPDATE {table_of(pipeline.topic)} SET note = 'x' WHERE id = 'b'"
            connection.execute(change)
            holds.set()
            wait_until(lambda: ended in caplog.text, 60, "the batch has waited for b in vain")

    holds = threading.Event()
    other = threading.Thread(target=hold)
    other.start()
    assert holds.wait(60)
    pipeline.drain()
    other.join(60)

    number = 1222 if is_real() else 50200
    assert re.search(rf"{ended}.*\(error {number}, ", caplog.text)
    assert {row.id: row.amount for row in pipeline.rows()} == {"a": 2, "b": 2}


@pytest.mark.parametrize("what", ["start", "batch"])
def test_it_waits_when_another_writes_the_table_for_longer_than_a_lock_is_waited_for(
    make: MakePipeline, caplog: pytest.LogCaptureFixture, what: str
) -> None:
    """Another transaction, as a backfill's, has the lock of the table's writers: six such times.

    From before the start on, or from its end on.
    """
    pipeline = make()
    wait_less_for_locks(pipeline)
    pipeline.send(event("a", 1))
    pipeline.drain()
    pipeline.send(event("a", 2))
    prepare = table.prepare
    waits = f"waits to write to {pipeline.topic.location}"

    def hold() -> None:
        with connect(pipeline.topic) as connection, connection.transaction():
            ledger.lock(connection, pipeline.topic)
            holds.set()
            wait_until(lambda: caplog.text.count(waits) >= 6, 60, f"the {what} has waited 6 times")

    def prepare_beside_another(*arguments: Any) -> None:
        if what == "batch":
            prepare(*arguments)
        other.start()
        assert holds.wait(60)
        if what == "start":
            prepare(*arguments)

    holds = threading.Event()
    other = threading.Thread(target=hold)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table, "prepare", prepare_beside_another)
        pipeline.drain()
    other.join(60)

    assert "attempt 1 of 5 ended" not in caplog.text
    assert {row.id: row.amount for row in pipeline.rows()} == {"a": 2}


def test_table_without_a_unique_key_is_refused(make: MakePipeline) -> None:
    pipeline = make()
    execute(pipeline, "CREATE TABLE {} (id nvarchar(100), amount int)")

    with pytest.raises(RefusedError, match=r"no unique index .* ADD UNIQUE \(\[id\]\)"):
        pipeline.drain()


def test_key_by_a_collation_that_takes_keys_for_the_same_is_refused(
    make: MakePipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What SQL Server says of a column with its usual collation; H2 has none, so it is told."""
    pipeline = make()

    def by_the_usual(*arguments: Any) -> dict[str, Any]:
        usual = {"collation": "SQL_Latin1_General_CP1_CI_AS"}
        held = catalog.columns_of(*arguments)
        return {name: type(each)(**vars(each) | usual) for name, each in held.items()}

    monkeypatch.setattr("orders_pipeline.table.columns_of", by_the_usual)
    execute(pipeline, "CREATE TABLE {} (id nvarchar(450) NOT NULL PRIMARY KEY, amount int)")

    with pytest.raises(RefusedError, match="compares text by SQL_Latin1_General_CP1_CI_AS"):
        pipeline.drain()


def test_one_is_refused_when_the_table_refuses_two_rows_only_together(make: MakePipeline) -> None:
    """The amounts are unique. Sent in one batch: three rows with one, two with another, others."""
    pipeline = make()
    pipeline.send(event("first", 1))
    pipeline.drain()
    execute(pipeline, "ALTER TABLE {} ADD UNIQUE (amount)")
    twice = [*(event(f"x{n}", 2) for n in range(3)), *(event(f"y{n}", 3) for n in range(2))]
    pipeline.send(*twice, event("z", 1), *(event(f"k{n}", 10 + n) for n in range(20)))

    pipeline.drain()

    assert sorted(row.amount for row in pipeline.rows()) == [1, 2, 3, *range(10, 30)]
    assert len(refused(pipeline)) == 4
    assert b"z" in refused(pipeline)
    assert pipeline.balances[-1].holds


def test_batch_stops_when_the_table_refuses_all_of_it(make: MakePipeline) -> None:
    """Sent: 150 records; the table wants a column that none has, then a range that none is in.

    Then as many again, for a batch that was not attempted yet.
    """
    pipeline = make()
    pipeline.send(event("first", 1))
    pipeline.drain()
    pipeline.send(*(event(f"k{n}", n + 2) for n in range(150)))
    with pytest.MonkeyPatch.context() as patch:
        # While it runs: a start would find it.
        prepare = table.prepare

        def prepare_and_alter(*arguments: Any) -> None:
            prepare(*arguments)
            execute(pipeline, "DELETE FROM {}")
            execute(pipeline, "ALTER TABLE {} ADD owner nvarchar(10) NOT NULL")

        patch.setattr(table, "prepare", prepare_and_alter)
        with pytest.raises(BatchError, match="wants a value in owner"):
            pipeline.drain()
    execute(pipeline, "ALTER TABLE {} DROP COLUMN owner")
    execute(pipeline, "ALTER TABLE {} ADD CONSTRAINT one CHECK (amount = 1)")
    pipeline.send(*(event(f"l{n}", n + 2) for n in range(150)))
    with pytest.raises(BatchError, match="more than 100 of a batch"):
        pipeline.drain()

    execute(pipeline, "ALTER TABLE {} DROP CONSTRAINT one")  # by which another may be called
    assert ids(pipeline) == []
    assert sum(balance.dead_lettered for balance in pipeline.balances) == 0


def test_column_that_is_dropped_under_a_running_stream_stops_it(
    make: MakePipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table loses a column after the start. Expected: a sentence that names it."""
    pipeline = make()
    pipeline.send(event("a", 1))
    prepare = table.prepare

    def prepare_and_drop(*arguments: Any) -> None:
        prepare(*arguments)
        execute(pipeline, "ALTER TABLE {} DROP COLUMN note")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table, "prepare", prepare_and_drop)
        with pytest.raises(BatchError, match=r"lacks the columns \['note'\]"):
            pipeline.drain()

    pipeline.drain()  # a start adds it
    assert ids(pipeline) == ["a"]


def lose(connection: Connection) -> None:
    """Ends a connection under its user's hands."""
    connection._raw.close()


class NeverRolledBack:
    """A connection of JDBC, but that its rollback fails."""

    def __init__(self, raw: Any) -> None:
        self.raw = raw

    def __getattr__(self, name: str) -> Any:
        return getattr(self.raw, name)

    def rollback(self) -> None:
        self.raw.createStatement().execute("no statement")


def test_what_cannot_be_rolled_back_is_not_committed_either(make: MakePipeline) -> None:
    """A block ends by an error, then its rollback fails, on a connection that is still there."""
    pipeline = make()
    execute(pipeline, "CREATE TABLE {} (amount int)")

    def insert_and_fail() -> None:
        with connect(pipeline.topic) as connection:
            connection._raw = NeverRolledBack(connection._raw)
            with connection.transaction():
                connection.execute(f"INSERT INTO {table_of(pipeline.topic)} (amount) VALUES (1)")
                raise RefusedError("as by a check")

    with pytest.raises(RefusedError):
        insert_and_fail()
    with connect(pipeline.topic) as connection:
        found = connection.query(f"SELECT count(*) FROM {table_of(pipeline.topic)}")
    assert found == [(0,)]


def test_connection_that_is_lost_before_the_commit_costs_nothing(
    make: MakePipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection ends, once, when all of a batch but its commit is done."""
    pipeline = make()
    pipeline.send(event("a", 1))
    note = ledger.note
    lost: list[Connection] = []

    def note_and_lose(
        connection: Connection, batch: Batch, topic: Topic, refused: list[Refused], name: str
    ) -> None:
        note(connection, batch, topic, refused, name)
        if not lost:
            lost.append(connection)
            connection._raw.rollback()  # as the server does for a client that is gone
            lose(connection)

    monkeypatch.setattr(ledger, "note", note_and_lose)
    pipeline.drain()

    assert lost
    assert ids(pipeline) == ["a"]
    assert pipeline.balances[-1].holds


def test_commit_that_is_not_heard_of_is_not_repeated(
    make: MakePipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection ends right after a batch's commit, once. Expected: its rows once."""
    pipeline = make()
    pipeline.send(event("a", 1), event("b", 2))
    note, transaction = ledger.note, Connection.transaction
    noted: list[str] = []
    lost: list[str] = []

    def note_and_tell(*arguments: Any) -> None:
        note(*arguments)
        noted.append("a batch")

    @contextmanager
    def commit_and_lose(connection: Connection, keep: bool = True) -> Iterator[None]:
        with transaction(connection, keep):
            yield
        if noted and not lost:
            lost.append("the connection")
            raise DatabaseError(0, "08S01", "the connection is lost", lost=True)

    monkeypatch.setattr(ledger, "note", note_and_tell)
    monkeypatch.setattr(Connection, "transaction", commit_and_lose)
    pipeline.drain()

    assert lost
    assert len(noted) == 1
    assert ids(pipeline) == ["a", "b"]
    assert pipeline.balances[-1].written == 2


def test_rows_that_were_refused_are_asked_for_again_when_the_connection_is_lost(
    make: MakePipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch is there already; the connection ends, once, as its refused rows are asked for."""
    pipeline = make()
    pipeline.send(event("a", 1))
    pipeline.drain()
    refused_of = ledger.refused_of
    lost: list[Connection] = []

    def lose_and_ask(connection: Connection, topic: Topic, name: str) -> list[Refused]:
        if not lost:
            lost.append(connection)
            lose(connection)
        return refused_of(connection, topic, name)

    monkeypatch.setattr(ledger, "refused_of", lose_and_ask)
    label = table.newest_labels(pipeline.spark, pipeline.topic)[0]
    batch = Batch(label["batch"], {}, label["pipeline"], label["schema"], first=0)

    assert delivery.refused_before(batch, pipeline.topic) == []
    assert lost


def test_rows_that_spark_sent_twice_are_not_merged(
    make: MakePipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when Spark runs a task again whose rows had been committed, but not heard of."""
    pipeline = make()
    pipeline.send(event("a", 1))
    fill = staging._fill

    def fill_twice(*arguments: Any) -> None:
        fill(*arguments)
        fill(*arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(staging, "_fill", fill_twice)
        with pytest.raises(BatchError, match="1 rows were sent and 2 have arrived"):
            pipeline.drain()
    assert ids(pipeline) == []


def test_batch_may_have_been_written_when_its_commit_is_never_heard_of(
    make: MakePipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection ends right after a batch's commit, and there is none any more."""
    monkeypatch.setattr(database, "WAITS_S", ())
    pipeline = make()
    pipeline.send(event("a", 1))
    note, transaction = ledger.note, Connection.transaction
    noted: list[str] = []

    def note_and_tell(*arguments: Any) -> None:
        note(*arguments)
        noted.append("a batch")

    @contextmanager
    def commit_and_lose(connection: Connection, keep: bool = True) -> Iterator[None]:
        with transaction(connection, keep):
            yield
        if noted:
            raise DatabaseError(0, "08S01", "the connection is lost", lost=True)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ledger, "note", note_and_tell)
        patch.setattr(Connection, "transaction", commit_and_lose)
        with pytest.raises(BatchError, match=r"All of the batch may be there, or nothing of it"):
            pipeline.drain()

    assert ids(pipeline) == ["a"]


def test_process_that_another_has_replaced_writes_nothing_more(
    make: MakePipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a batch is written, another process starts on the same table."""
    pipeline = make()
    pipeline.send(event("a", 1))
    lock = ledger.lock

    def take_over_and_lock(connection: Connection, topic: Topic) -> None:
        with pytest.MonkeyPatch.context() as patch, connect(topic) as theirs:
            patch.setattr(ledger, "WRITER", "another")
            ledger.take_over(theirs, topic)
        lock(connection, topic)

    monkeypatch.setattr(ledger, "lock", take_over_and_lock)
    with pytest.raises(RefusedError, match="Another process writes"):
        pipeline.drain()

    assert ids(pipeline) == []


@pytest.mark.skipif(is_real(), reason="SQL Server: NOT RUN there, a login is not ours to make")
def test_rights_that_were_taken_away_stop_the_stream(make: MakePipeline) -> None:
    """Taken: the right to write, which H2 gives for all tables or none. Then it is there again."""
    pipeline = make()
    with connect(pipeline.topic) as owner:

        def tell(statement: str) -> None:
            owner._raw.createStatement().execute(statement)

        tell("DROP USER IF EXISTS ingesting")
        tell("CREATE USER ingesting PASSWORD 'h2'")
        tell("GRANT SELECT ON SCHEMA dbo TO ingesting")
        tell("GRANT SELECT ON SCHEMA sys TO ingesting")
        tell("GRANT ALTER ANY SCHEMA TO ingesting")
        url = str(pipeline.settings.database.url).replace(";DB_CLOSE_DELAY=-1", "")  # the owner's
        set_database(pipeline, url=url, user="ingesting")
        pipeline.send(event("a", 1))
        pipeline.drain()
        pipeline.send(event("b", 2))
        prepare = table.prepare

        def prepare_and_revoke(*arguments: Any) -> None:
            prepare(*arguments)
            tell("REVOKE ALTER ANY SCHEMA FROM ingesting")

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(table, "prepare", prepare_and_revoke)
            with pytest.raises(BatchError, match=r"Not enough rights .* Nothing of the batch"):
                pipeline.drain()
        assert ids(pipeline) == ["a"]
        tell("GRANT ALTER ANY SCHEMA TO ingesting")
        pipeline.drain()
    assert ids(pipeline) == ["a", "b"]


@pytest.mark.skipif(is_real(), reason="SQL Server: NOT RUN there, a login is not ours to make")
def test_what_stops_the_staging_is_said_and_not_tried_again(
    make: MakePipeline, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Spark's tasks are one who may only read."""
    pipeline = make()
    with connect(pipeline.topic) as owner:
        for statement in (
            "DROP USER IF EXISTS reading",
            "CREATE USER reading PASSWORD 'h2'",
            "GRANT SELECT ON SCHEMA dbo TO reading",
        ):
            owner._raw.createStatement().execute(statement)
        url = str(pipeline.settings.database.url).replace(";DB_CLOSE_DELAY=-1", "")  # the owner's
        set_database(pipeline, url=url)
        monkeypatch.setattr(staging, "credentials", lambda _: {"user": "reading", "password": "h2"})
        pipeline.send(event("a", 1))

        with pytest.raises(BatchError, match=r"stage the rows: Not enough rights .*error 90096, "):
            pipeline.drain()

    assert "attempt 1 of 5 ended" not in caplog.text


def test_start_that_meets_what_passes_by_is_not_refused(
    make: MakePipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A deadlock, each time. Expected: an error, with the server's words, that blames no table.

    Then: that a view has the table's name, each time, which does not pass by.
    """
    monkeypatch.setattr(database, "WAITS_S", ())
    said = [DatabaseError(1205, "40001", "it was the victim of a deadlock")]

    def fail(*ignored: object) -> None:
        raise said[-1]

    pipeline = make()
    monkeypatch.setattr(ledger, "take_over", fail)
    with pytest.raises(StorageError, match=r"the victim of a deadlock \(error 1205, .* No batch"):
        pipeline.drain()
    said.append(DatabaseError(2714, "S0006", "There is already an object named 'orders'"))
    with pytest.raises(RefusedError, match=r"is no table, but a view .* Nothing was written"):
        pipeline.drain()


@pytest.mark.skipif(is_real(), reason="SQL Server: NOT RUN there, it might lock the login")
def test_login_that_is_refused_is_not_tried_again(
    make: MakePipeline, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A wrong password; H2's number of that error stands in for SQL Server's."""
    pipeline = make()
    monkeypatch.setattr(database, "WRONG_LOGIN", {28000})
    monkeypatch.setenv(PASSWORD, "another")

    with pytest.raises(SettingsError, match=r"No connection .* Nothing was written") as failed:
        pipeline.drain()

    assert "another" not in str(failed.value)
    assert "attempt 1" not in caplog.text


def test_database_that_is_down_stops_the_start(
    make: MakePipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Microsoft's own driver, at a port where nobody is. Expected: a sentence, no password."""
    monkeypatch.setattr(database, "WAITS_S", (1,))
    monkeypatch.setenv(PASSWORD, "a-secret")
    driver = "com.microsoft.sqlserver.jdbc.SQLServerDriver"
    pipeline = make(database={"url": None, "driver": driver, "port": 1, "name": "d", "user": "u"})

    with pytest.raises(NoAnswerError, match=r"d at localhost:1 as u: .*Nothing was") as failed:
        pipeline.drain()

    assert "port 1" in str(failed.value)
    assert "a-secret" not in str(failed.value)


def test_columns_of_every_type_arrive_as_they_are(make: MakePipeline) -> None:
    """Written: a row of each type, reserved words among the names; and one of nulls.

    A name with ] in it, which H2 does not read doubled, is in test_sql_server.py alone.
    """
    pipeline = make()
    shape = """
        id STRING, `order` BOOLEAN, `user` TINYINT, `select` SMALLINT, `Int` INT, long BIGINT,
        float FLOAT, double DOUBLE, exact DECIMAL(38, 18), bytes BINARY, day DATE,
        moment TIMESTAMP, local TIMESTAMP_NTZ, `a [ "quote" ?` STRING,
        nested STRUCT<a: INT, b: STRING>, map MAP<STRING, DOUBLE>, deep ARRAY<ARRAY<INT>>,
        _topic STRING, _partition INT, _offset BIGINT, _timestamp TIMESTAMP
    """
    moment = datetime(2024, 2, 29, 23, 59, 59, 123456)
    text = "q\"uo'te,\n\\.\0\\N\t\r\n ü ? [x]]"
    values: list[Any] = ["a", True, -128, -32768, -(2**31), -(2**63), 1.5, -0.1]
    values += [Decimal("-0.000000000000000001"), b"\0\xff", date(1, 1, 1), moment, moment, text]
    values += [Row(a=None, b="x"), {"k": 2.5}, [[1], []], "t", 0, 0, moment]
    nulls = ["b", *([None] * 16), "t", 0, 1, moment]
    rows = pipeline.spark.createDataFrame([tuple(values), tuple(nulls)], shape)
    table.prepare(pipeline.spark, pipeline.topic, rows.schema)
    marked = rows.selectExpr("*", "false AS _deleted")
    assert sink.fill(marked, pipeline.topic).written == 2

    found, empty = read_table(pipeline.spark, pipeline.topic)

    aware = moment.replace(tzinfo=UTC)
    values[10:12] = ["0001-01-01", aware]
    values[14:17] = ['{"a":null,"b":"x"}', '{"k":2.5}', "[[1],[]]"]
    values[-1] = aware
    assert list(found) == values
    assert list(empty) == [*nulls[:-1], aware]


@pytest.mark.parametrize(
    ("columns", "outcome"),
    [
        ("amount bigint, note nvarchar(2)", None),
        ("amount smallint", "smallint; the pipeline has int"),
        ("owner nvarchar(9) NOT NULL", r"wants a value in \['owner'\]"),
    ],
)
def test_table_that_was_there_is_checked_column_by_column(
    make: MakePipeline, columns: str, outcome: str | None
) -> None:
    """Sent: a note and an id that are too long for the first table, and what fits."""
    pipeline = make()
    execute(pipeline, "CREATE TABLE {} (" + KEY + ", " + columns + ")")
    pipeline.send(event("a", 1, note="xy"), event("b", 2, note="xyz"), event("0123456789", 3))

    if outcome:
        with pytest.raises(RefusedError, match=outcome):
            pipeline.drain()
        return
    pipeline.drain()

    assert [(row.id, row.note) for row in pipeline.rows()] == [("a", "xy")]
    assert set(refused(pipeline)) == {b"b", b"0123456789"}


def test_nothing_is_left_beside_the_tables(make: MakePipeline) -> None:
    """Left: by a process that died, a batch; by backfills, one of today and one of long ago.

    Expected: the next start removes the first and the last; a backfill may be under way.
    """
    pipeline = make()
    pipeline.send(event("a", 1))
    pipeline.drain()
    schema = pipeline.topic.table.schema_name
    with connect(pipeline.topic) as connection:
        number = number_of(connection, schema, pipeline.topic.table_name)
        batch, fill = (staging_name(number, of_stream) for of_stream in (True, False))
        for name in (batch, fill, f"_ingest_{number}_fill_20200101_x"):
            connection.execute(f"CREATE TABLE [{schema}].[{name}] (_row int)")
    pipeline.send(event("b", 2))

    pipeline.drain()

    with connect(pipeline.topic) as connection:
        names = tables_of(connection, schema)
    assert [name for name in names if name.startswith(f"_ingest_{number}_")] == [fill]
