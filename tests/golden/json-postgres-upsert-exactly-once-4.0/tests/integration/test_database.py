"""What PostgreSQL may do to a batch: refuse a row, lose the connection, let another writer in."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import psycopg
import pytest
from psycopg import sql
from pyspark.sql import Row
from pyspark.sql import functions as F

from orders_pipeline import (
    backfill,
    database,
    ledger,
    merging,
    sink,
    staging,
    table,
)
from orders_pipeline.batch import Batch, Refused
from orders_pipeline.database import (
    PASSWORD,
    Connection,
    connect,
    table_of,
)
from orders_pipeline.errors import BatchError, NoAnswerError, RefusedError
from orders_pipeline.settings import Topic

from tests.support.pipeline import DDL, MakePipeline, Pipeline, event
from tests.support.tables import read_table
from tests.support.topics import wait_until
from tests.support.transforms import transform_to


def execute(pipeline: Pipeline, statement: str) -> list[tuple[Any, ...]]:
    """Runs a statement in which {} is the topic's table."""
    with connect(pipeline.topic) as connection:
        named = table_of(pipeline.topic).as_string()
        done = connection.execute(statement.replace("{}", named).encode())
        return done.fetchall() if done.description else []


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


@contextmanager
def as_another_role(pipeline: Pipeline, sessions: int = -1) -> Iterator[None]:
    """Has the pipeline write as a role that may do all it must, and owns the table it makes.

    It may have as many ``sessions`` at once, -1 for any number.
    """
    owner = pipeline.settings
    execute(pipeline, f"CREATE ROLE ingesting LOGIN PASSWORD 'x' CONNECTION LIMIT {sessions}")
    try:
        execute(pipeline, "GRANT CREATE, USAGE ON SCHEMA public TO ingesting")
        execute(pipeline, "GRANT ALL ON ALL TABLES IN SCHEMA public TO ingesting")
        own = owner.database.model_copy(update={"user": "ingesting"})
        pipeline.settings = owner.model_copy(update={"database": own})
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv(PASSWORD, "x")
            yield
    finally:
        pipeline.settings = owner
        execute(pipeline, "DROP OWNED BY ingesting")
        execute(pipeline, "DROP ROLE ingesting")


def test_row_with_a_nul_character_alone_is_refused(make: MakePipeline) -> None:
    """Sent: a NUL in a text, in the key column, in an array, in a struct; and two good records."""
    pipeline = make()
    pipeline.write_schema(f"{DDL}, tags ARRAY<STRING>, nested STRUCT<name: STRING>")
    pipeline.send(
        event("a", 1, tags=["x"]),
        event("text", 2, note="a\0b", tags=["x"]),
        (b"key", {"id": "k\0y", "amount": 3, "tags": ["x"]}, [], 0),
        event("array", 4, tags=["x", "\0"]),
        event("struct", 4, tags=[], nested={"name": "\0"}),
        event("b", 5, tags=["y", "z"], partition=1),
    )

    pipeline.drain()

    assert ids(pipeline) == ["a", "b"]
    assert {row.id: row.tags for row in pipeline.rows()} == {"a": ["x"], "b": ["y", "z"]}
    assert refused(pipeline) == {
        b"text": b"note holds a NUL character",
        b"key": b"id holds a NUL character",
        b"array": b"UntranslatableCharacter",
        b"struct": b"UntranslatableCharacter",
    }
    [balance] = pipeline.balances
    assert balance.holds
    assert balance.dead_lettered == 4


def test_value_that_no_column_can_hold_alone_is_refused(
    make: MakePipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A transform makes texts that are not UTF-8, and moments that Arrow would write as others.

    Sent: more of them than the table itself may refuse.
    """
    pipeline = make(breaker={"min_rejected": 1_000})
    word = F.expr("IF(id = 'b', cast(X'FF' AS STRING), 'ü')")
    due = "CASE id WHEN 'a' THEN 253402300799 WHEN 'b' THEN 0 WHEN 'c' THEN 253402300800 "
    due += "WHEN 'd' THEN -62135596801 ELSE 2032948800000 END"
    transform_to(monkeypatch, word=word, due=F.timestamp_seconds(F.expr(due)))
    pipeline.send(*(event(key, 1) for key in "abcd"), *(event(f"n{n}", n) for n in range(100)))

    pipeline.drain()

    assert [(row.id, row.due.year) for row in pipeline.rows()] == [("a", 9999)]
    far = [b"c", b"d", *(b"n%d" % n for n in range(100))]
    message = b"due is not of the years 1 to 9999"
    assert refused(pipeline) == {b"b": b"word is not UTF-8"} | dict.fromkeys(far, message)
    assert pipeline.balances[-1].holds


def test_row_that_a_trigger_or_its_depth_keeps_out_alone_is_refused(make: MakePipeline) -> None:
    """A trigger raises an exception for 200. Sent: that, 20,000 nested arrays, two others."""
    pipeline = make()
    execute(pipeline, "CREATE TABLE {} (id text PRIMARY KEY, amount integer, note jsonb)")
    execute(
        pipeline,
        "CREATE OR REPLACE FUNCTION judge() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        "IF NEW.amount = 200 THEN RAISE EXCEPTION 'never %', NEW.amount; END IF; "
        "RETURN NEW; END $$",
    )
    execute(
        pipeline, "CREATE TRIGGER judges BEFORE INSERT ON {} FOR EACH ROW EXECUTE FUNCTION judge()"
    )
    deep = "[" * 20_000 + "]" * 20_000
    pipeline.send(event("a", 1), event("large", 200), event("deep", 3, note=deep), event("b", 4))

    pipeline.drain()

    assert ids(pipeline) == ["a", "b"]
    assert refused(pipeline) == {b"large": b"RaiseException", b"deep": b"StatementTooComplex"}


def test_serialization_failure_is_tried_again(
    make: MakePipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A trigger fails so, the first time that it is asked."""
    monkeypatch.setattr(database, "WAITS_S", (0.1,))
    pipeline = make()
    execute(pipeline, "CREATE TABLE {} (id text PRIMARY KEY, amount integer)")
    execute(pipeline, "DROP SEQUENCE IF EXISTS attempts")
    execute(pipeline, "CREATE SEQUENCE attempts")  # which no rollback sets back
    execute(
        pipeline,
        "CREATE OR REPLACE FUNCTION fail_once() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        "IF nextval('attempts') = 1 THEN RAISE EXCEPTION USING ERRCODE = '40001'; END IF; "
        "RETURN NEW; END $$",
    )
    execute(
        pipeline,
        "CREATE TRIGGER fails BEFORE INSERT ON {} FOR EACH ROW EXECUTE FUNCTION fail_once()",
    )
    pipeline.send(event("a", 1))

    pipeline.drain()

    assert ids(pipeline) == ["a"]
    assert pipeline.balances[-1].dead_lettered == 0
    assert execute(pipeline, "SELECT last_value FROM attempts") == [(2,)]


@pytest.mark.parametrize("allowed", [1, 2])
def test_as_many_tasks_write_at_once_as_the_settings_allow(
    make: MakePipeline, monkeypatch: pytest.MonkeyPatch, allowed: int
) -> None:
    """Filled: rows of two tasks or more. What one session copies is one transaction's."""
    pipeline = make(database={"max_connections": allowed})
    apply, sessions = sink._merge, list[int]()

    def count(connection: Connection, topic: Topic, staged: staging.Staging) -> staging.Merge:
        writers = sql.SQL("SELECT count(DISTINCT xmin::text) FROM {}").format(staged.name)
        [found] = connection.execute(writers).fetchone() or [0]
        sessions.append(found)
        return apply(connection, topic, staged)

    monkeypatch.setattr(sink, apply.__name__, count)
    rows = pipeline.spark.range(100).selectExpr(
        *("concat('k', id) AS id", "int(id) AS amount", "'orders' AS _topic", "0 AS _partition"),
        *("id AS _offset", "timestamp'2026-01-01' AS _timestamp"),
    )
    table.prepare(pipeline.spark, pipeline.topic, rows.schema)
    tasks = pipeline.spark.conf.get("spark.sql.shuffle.partitions")
    pipeline.spark.conf.set("spark.sql.shuffle.partitions", "4")
    try:
        marked = rows.selectExpr("*", "false AS _deleted")
        assert sink.fill(marked, pipeline.topic).written == 100
    finally:
        pipeline.spark.conf.set("spark.sql.shuffle.partitions", str(tasks))

    assert sessions == [allowed]


def test_column_that_is_dropped_under_a_running_stream_stops_it(make: MakePipeline) -> None:
    """The table loses a column after the start. Expected: a sentence that names it."""
    pipeline = make()
    pipeline.send(event("a", 1))
    prepare = table.prepare

    def prepare_and_drop(*arguments: Any) -> None:
        prepare(*arguments)
        execute(pipeline, "ALTER TABLE {} DROP COLUMN note")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table, "prepare", prepare_and_drop)
        with pytest.raises(BatchError, match=r'column "note" .* does not exist'):
            pipeline.drain()

    pipeline.drain()  # a start adds it
    assert ids(pipeline) == ["a"]


def test_row_that_breaks_a_constraint_alone_is_refused_and_comes_back(make: MakePipeline) -> None:
    """The table says amount < 100. Sent: 200 among others. Then the constraint goes: replay."""
    pipeline = make()
    pipeline.send(event("first", 1))
    pipeline.drain()
    execute(pipeline, "ALTER TABLE {} ADD CONSTRAINT small CHECK (amount < 100)")
    pipeline.send(*(event(f"k{n}", n) for n in range(5)), event("large", 200), event("last", 6))

    pipeline.drain()

    assert ids(pipeline) == ["first", *(f"k{n}" for n in range(5)), "last"]
    assert refused(pipeline) == {b"large": b"CheckViolation of small"}
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


def test_older_record_of_a_key_counts_when_its_newest_is_refused(make: MakePipeline) -> None:
    """The table says amount < 100. Sent: 1, then 200 for the same key, in one batch."""
    pipeline = make()
    pipeline.send(event("other", 1))
    pipeline.drain()
    execute(pipeline, "ALTER TABLE {} ADD CHECK (amount < 100)")
    pipeline.send(event("k", 1), event("k", 200))

    pipeline.drain()

    assert {row.id: row.amount for row in pipeline.rows()} == {"other": 1, "k": 1}
    assert set(refused(pipeline)) == {b"k"}
    assert pipeline.balances[-1].holds


def test_row_from_before_the_pipeline_is_older_than_any_record(make: MakePipeline) -> None:
    """The table has rows that no record made. Sent: an update, a delete, a delete of none."""
    pipeline = make()
    execute(pipeline, "CREATE TABLE {} (id text PRIMARY KEY, amount integer)")
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
    execute(pipeline, "CREATE TABLE {} (id text PRIMARY KEY, amount int, changed_at timestamptz)")
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


def test_deadlock_with_another_writer_is_tried_again(
    make: MakePipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another transaction has b and wants a, while the batch has a and wants b."""
    pipeline = make()
    pipeline.send(event("a", 1), event("b", 1))
    pipeline.drain()
    pipeline.send(event("a", 2), event("b", 2))
    victims: list[str] = []

    def write_the_other_way_round() -> None:
        with connect(pipeline.topic) as connection, connection.transaction():
            connection.execute("SET LOCAL deadlock_timeout = '1h'")  # so the batch is the victim
            change = sql.SQL("UPDATE {} SET note = 'x' WHERE id = {}")
            connection.execute(change.format(table_of(pipeline.topic), "b"))
            holds.set()
            blocked = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
            wait_until(lambda: bool(execute(pipeline, blocked)), 60, "the batch waits for b")
            connection.execute(change.format(table_of(pipeline.topic), "a"))

    passes_by = database.passes_by

    def note_and_ask(error: psycopg.Error) -> bool:
        victims.append(type(error).__name__)
        return passes_by(error)

    monkeypatch.setattr(database, "passes_by", note_and_ask)
    holds = threading.Event()
    other = threading.Thread(target=write_the_other_way_round)
    other.start()
    assert holds.wait(60)
    pipeline.drain()
    other.join(60)

    assert victims == ["DeadlockDetected"]
    assert {row.id: row.amount for row in pipeline.rows()} == {"a": 2, "b": 2}


def test_table_is_made_with_the_key_as_its_primary_key(make: MakePipeline) -> None:
    pipeline = make()
    pipeline.send(event("a", 1))
    pipeline.drain()

    keys = "SELECT pg_get_indexdef(indexrelid) FROM pg_index WHERE indisprimary AND indrelid = "
    [(index,)] = execute(pipeline, keys + "'{}'::regclass")
    assert index.endswith("(id)")


def test_table_without_a_unique_key_is_refused(make: MakePipeline) -> None:
    pipeline = make()
    execute(pipeline, "CREATE TABLE {} (id text, amount integer)")

    with pytest.raises(RefusedError, match=r"no unique index .* ADD UNIQUE \(\"id\"\)"):
        pipeline.drain()


def test_uuid_is_one_key_however_it_is_spelled(make: MakePipeline) -> None:
    """Sent, in one batch: rows of two keys, then a row and a delete of these in other spellings."""
    pipeline = make()
    execute(pipeline, "CREATE TABLE {} (id uuid PRIMARY KEY, amount integer)")
    kept, gone = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "b0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"
    spelled_otherwise = ("{" + gone.upper() + "}").encode()
    pipeline.send(event(kept, 1), event(gone, 1), event(kept.replace("-", ""), 2), event("none", 1))
    pipeline.send((spelled_otherwise, None, [], 0))

    pipeline.drain()

    assert [(str(row.id), row.amount) for row in pipeline.rows()] == [(kept, 2)]
    assert set(refused(pipeline)) == {b"none"}
    [balance] = pipeline.balances
    assert (balance.written, balance.deleted, balance.deduplicated) == (1, 0, 2)


@pytest.mark.parametrize("kind", ["text COLLATE ignores_case", "jsonb"])
def test_table_to_which_two_keys_may_be_one_is_refused(make: MakePipeline, kind: str) -> None:
    pipeline = make()
    execute(
        pipeline,
        "CREATE COLLATION IF NOT EXISTS ignores_case "
        "(provider = icu, locale = 'und-u-ks-level2', deterministic = false)",
    )
    execute(pipeline, "CREATE TABLE {} (id " + kind + " PRIMARY KEY, amount integer)")

    with pytest.raises(RefusedError, match=r"\['id'\] may be equal, by their collation or as json"):
        pipeline.drain()


def test_one_is_refused_when_the_table_refuses_two_rows_only_together(make: MakePipeline) -> None:
    """The notes are unique. Sent in one batch: three rows with one note, two with another, others.

    A field is called as the rows' number would be.
    """
    pipeline = make()
    pipeline.write_schema(f"{DDL}, _row INT")
    pipeline.send(event("first", 1, note="n"))
    pipeline.drain()
    execute(pipeline, "ALTER TABLE {} ADD CONSTRAINT one_note UNIQUE (note)")
    twice = [event(f"x{n}", 2, note="x") for n in range(3)]
    twice += [event(f"y{n}", 2, note="y") for n in range(2)]
    alone = [event("z", 2, note="n"), *(event(f"k{n}", 2, note=f"k{n}", _row=n) for n in range(20))]
    pipeline.send(*twice, *alone)

    pipeline.drain()
    execute(pipeline, "ALTER TABLE {} DROP CONSTRAINT one_note")

    notes = sorted(row.note for row in pipeline.rows())
    assert notes == sorted(["n", "x", "y", *(f"k{n}" for n in range(20))])
    assert set(refused(pipeline).values()) == {b"UniqueViolation of one_note"}
    assert len(refused(pipeline)) == 4
    assert pipeline.balances[-1].holds


def test_row_that_breaks_a_deferred_constraint_alone_is_refused(make: MakePipeline) -> None:
    """The table checks its notes when a transaction ends. Sent: one that it does not know."""
    pipeline = make()
    pipeline.send(event("first", 1))
    pipeline.drain()
    execute(pipeline, "DROP TABLE IF EXISTS known_notes")
    execute(pipeline, "CREATE TABLE known_notes (note text PRIMARY KEY)")
    execute(pipeline, "INSERT INTO known_notes VALUES ('x')")
    known = "ADD CONSTRAINT known FOREIGN KEY (note) REFERENCES known_notes"
    execute(pipeline, "ALTER TABLE {} " + known + " DEFERRABLE INITIALLY DEFERRED")
    pipeline.send(event("a", 1, note="x"), event("b", 2, note="y"), event("c", 3, note="x"))

    pipeline.drain()
    execute(pipeline, "ALTER TABLE {} DROP CONSTRAINT known")

    assert ids(pipeline) == ["a", "c", "first"]
    assert refused(pipeline) == {b"b": b"ForeignKeyViolation of known"}


def test_batch_stops_when_the_table_refuses_all_of_it(make: MakePipeline) -> None:
    """Sent twice: 150 records; the table wants a column that none has, a range that none is in."""
    pipeline = make()
    pipeline.send(event("first", 1))
    pipeline.drain()
    records = [event(f"k{n}", n) for n in range(150)]
    pipeline.send(*records)

    execute(pipeline, "ALTER TABLE {} ADD COLUMN owner text NOT NULL DEFAULT 'x'")
    with pytest.MonkeyPatch.context() as patch:
        # While it runs, as a start would find it.
        prepare = table.prepare

        def prepare_and_alter(*arguments: Any) -> None:
            prepare(*arguments)
            execute(pipeline, "ALTER TABLE {} ALTER COLUMN owner DROP DEFAULT")

        patch.setattr(table, "prepare", prepare_and_alter)
        with pytest.raises(BatchError, match="wants a value in owner"):
            pipeline.drain()
    execute(pipeline, "ALTER TABLE {} DROP COLUMN owner, ADD CHECK (amount = 1) NOT VALID")
    pipeline.send(*records)
    with pytest.raises(BatchError, match="more than 100 of a batch"):
        pipeline.drain()

    assert ids(pipeline) == ["first"]
    assert {balance.dead_lettered for balance in pipeline.balances} == {0}


def test_connection_that_is_lost_before_the_commit_costs_nothing(
    make: MakePipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server ends the session of a batch, once, when all but its commit is done."""
    pipeline = make()
    pipeline.send(event("a", 1))
    note = ledger.note
    lost: list[int] = []

    def lose(
        connection: Connection, batch: Batch, topic: Topic, refused: list[Refused], name: str
    ) -> None:
        note(connection, batch, topic, refused, name)
        if not lost:
            lost.append(connection.info.backend_pid)
            execute(pipeline, f"SELECT pg_terminate_backend({lost[0]})")

    monkeypatch.setattr(ledger, "note", lose)
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
    note, transaction = ledger.note, psycopg.Connection.transaction
    noted: list[str] = []
    lost: list[str] = []

    def note_and_tell(*arguments: Any) -> None:
        note(*arguments)
        noted.append("a batch")

    @contextmanager
    def commit_and_lose(*arguments: Any, **named: Any) -> Iterator[Any]:
        with transaction(*arguments, **named) as began:
            yield began
        if noted and not lost:
            lost.append("the connection")
            raise psycopg.OperationalError("the connection is lost")

    monkeypatch.setattr(ledger, "note", note_and_tell)
    monkeypatch.setattr(psycopg.Connection, "transaction", commit_and_lose)
    pipeline.drain()

    assert lost
    assert len(noted) == 1
    assert ids(pipeline) == ["a", "b"]
    assert pipeline.balances[-1].written == 2


def test_batch_may_have_been_written_when_its_commit_is_never_heard_of(
    make: MakePipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection ends right after a batch's commit, and there is none any more."""
    monkeypatch.setattr(database, "WAITS_S", (1,))
    pipeline = make()
    pipeline.send(event("a", 1))
    note, transaction, opened = ledger.note, psycopg.Connection.transaction, database.opened
    noted: list[str] = []

    def note_and_tell(*arguments: Any) -> None:
        note(*arguments)
        noted.append("a batch")

    def open_until_then(*arguments: Any, **named: Any) -> Connection:
        if noted:
            raise psycopg.OperationalError("the server is gone")
        return opened(*arguments, **named)

    @contextmanager
    def commit_and_lose(*arguments: Any, **named: Any) -> Iterator[Any]:
        with transaction(*arguments, **named) as began:
            yield began
        if noted:
            raise psycopg.OperationalError("the connection is lost")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ledger, "note", note_and_tell)
        patch.setattr(psycopg.Connection, "transaction", commit_and_lose)
        patch.setattr(database, "opened", open_until_then)
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


def test_privilege_that_was_taken_away_stops_the_stream(make: MakePipeline) -> None:
    pipeline = make()
    pipeline.send(event("a", 1))
    with as_another_role(pipeline):
        pipeline.drain()
        execute(pipeline, "REVOKE INSERT ON {} FROM ingesting")
        pipeline.send(event("b", 2))

        with pytest.raises(BatchError, match=r"permission denied .* Nothing of the batch"):
            pipeline.drain()

        assert ids(pipeline) == ["a"]
        execute(pipeline, "GRANT INSERT ON {} TO ingesting")
        pipeline.drain()
        assert ids(pipeline) == ["a", "b"]


def test_task_that_may_not_connect_says_why(
    make: MakePipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The user may have one session, which the driver has."""
    monkeypatch.setattr(database, "WAITS_S", (0.1,))
    pipeline = make()
    pipeline.send(event("a", 1))
    with as_another_role(pipeline, sessions=1):
        with pytest.raises(NoAnswerError, match=r'connections for role "ingesting"\. Nothing was'):
            pipeline.drain()

        assert ids(pipeline) == []


def test_database_of_another_encoding_is_refused(make: MakePipeline) -> None:
    pipeline = make(database={"name": "latin"})
    template = "ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0"
    own = pipeline.settings.database.model_copy(update={"name": "template1"})
    beside = pipeline.settings.model_copy(update={"database": own})
    with connect(beside.topic_settings(pipeline.topic.name)) as connection:
        connection.execute("DROP DATABASE IF EXISTS latin")
        connection.execute(f"CREATE DATABASE latin {template}".encode())
    pipeline.send(event("a", 1, note="ü"))

    with pytest.raises(RefusedError, match="latin has the encoding LATIN1"):
        pipeline.drain()


def test_session_probes_and_speaks_utf_8_whatever_the_environment_says(
    make: MakePipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = make()
    monkeypatch.setenv("PGCLIENTENCODING", "LATIN1")

    assert execute(pipeline, "SHOW client_encoding") == [("UTF8",)]
    probes = [execute(pipeline, f"SHOW tcp_keepalives_{n}") for n in ("idle", "interval", "count")]
    assert probes == [[("30",)], [("10",)], [("3",)]]


def test_database_that_is_down_stops_the_start(
    make: MakePipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Expected: a sentence with the address, without the password."""
    monkeypatch.setattr(database, "WAITS_S", (1,))
    monkeypatch.setenv(PASSWORD, "a-secret")
    pipeline = make(database={"port": 1})

    with pytest.raises(NoAnswerError, match=r"(?s)at \S+:1 as postgres.*Nothing was") as failed:
        pipeline.drain()

    assert "a-secret" not in str(failed.value)


def test_columns_of_every_type_arrive_as_they_are(make: MakePipeline) -> None:
    """Written: a row of each type, reserved words among the names; and one of nulls."""
    pipeline = make()
    shape = """
        id STRING, `order` BOOLEAN, `user` TINYINT, `select` SMALLINT, `Int` INT, long BIGINT,
        float FLOAT, double DOUBLE, exact DECIMAL(38, 18), bytes BINARY, day DATE,
        moment TIMESTAMP, local TIMESTAMP_NTZ, `a "quote" %` STRING, numbers ARRAY<BIGINT>,
        texts ARRAY<STRING>, moments ARRAY<TIMESTAMP>, blobs ARRAY<BINARY>,
        nested STRUCT<a: INT, b: STRING>, map MAP<STRING, DOUBLE>, deep ARRAY<ARRAY<INT>>,
        _topic STRING, _partition INT, _offset BIGINT, _timestamp TIMESTAMP
    """
    moment = datetime(2024, 2, 29, 23, 59, 59, 123456)
    text = "q\"uo'te,\n\\.\n\\N\t\r\n ü"
    values: list[Any] = ["a", True, -128, -32768, -(2**31), -(2**63), 1.5, -0.1]
    values += [Decimal("-0.000000000000000001"), b"\0\xff", date(1, 1, 1), moment, moment, text]
    values += [[1, None, -3], ["", None, text], [moment], [b"\0"], Row(a=None, b=text)]
    values += [{"k": 2.5}, [[1], []], "t", 0, 0, moment]
    nulls = ["b", *([None] * 20), "t", 0, 1, moment]
    rows = pipeline.spark.createDataFrame([tuple(values), tuple(nulls)], shape)
    table.prepare(pipeline.spark, pipeline.topic, rows.schema)
    marked = rows.selectExpr("*", "false AS _deleted")
    assert sink.fill(marked, pipeline.topic).written == 2

    found, empty = read_table(pipeline.spark, pipeline.topic)

    aware = moment.replace(tzinfo=UTC)
    values[11], values[16], values[-1] = aware, [aware], aware
    values[18] = {"a": None, "b": text}
    assert list(found) == values
    assert list(empty) == [*nulls[:-1], aware]


@pytest.mark.parametrize(
    ("columns", "outcome"),
    [
        ("id varchar(3) PRIMARY KEY, amount bigint, note jsonb", None),
        ("id text PRIMARY KEY, amount smallint", "amount .* is smallint; the pipeline has integer"),
        ("id text PRIMARY KEY, owner text NOT NULL", r"wants a value in \['owner'\]"),
    ],
)
def test_table_that_was_there_is_checked_column_by_column(
    make: MakePipeline, columns: str, outcome: str | None
) -> None:
    """Sent: a note that is JSON, one that is none, ids that are too long for the first table.

    One by a space, which PostgreSQL would cut.
    """
    pipeline = make()
    execute(pipeline, "CREATE TABLE {} (" + columns + ")")
    pipeline.send(event("a", 1, note='{"x": 1}'), event("b", 2, note="{"), event("long", 3))
    pipeline.send(event("abc", 4), event("abc ", 5))

    if outcome:
        with pytest.raises(RefusedError, match=outcome):
            pipeline.drain()
        return
    pipeline.drain()

    rows = sorted((row.id, row.amount, row.note) for row in pipeline.rows())
    assert rows == [("a", 1, {"x": 1}), ("abc", 4, None)]
    assert set(refused(pipeline)) == {b"b", b"long", b"abc "}


def test_nothing_is_left_beside_the_tables(
    make: MakePipeline, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A process died while it copied, then a dump reads what is left.

    Expected: no batch waits for the dump; after the next one, no staging table is left.
    """
    pipeline = make()
    pipeline.send(event("a", 1))
    pipeline.drain()
    with connect(pipeline.topic) as connection:
        left = f"_ingest_{table.oid(connection, pipeline.topic)}_1_x"
    execute(pipeline, f'CREATE TABLE "{left}" ()')
    monkeypatch.setattr(staging, "PATIENCE", "100ms")
    pipeline.send(event("b", 2))
    with connect(pipeline.topic) as dump, dump.transaction():
        dump.execute(f'LOCK TABLE "{left}" IN ACCESS SHARE MODE'.encode())
        pipeline.drain()
        assert ids(pipeline) == ["a", "b"]
        assert f'"{left}" stays until a later batch: LockNotAvailable' in caplog.text
    pipeline.send(event("c", 3))

    pipeline.drain()

    names = [name for (name,) in execute(pipeline, "SELECT tablename FROM pg_tables")]
    assert [name for name in names if name.startswith(left.removesuffix("1_x"))] == []
