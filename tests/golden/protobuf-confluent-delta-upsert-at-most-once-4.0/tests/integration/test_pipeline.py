"""What becomes of good, bad, empty and late records, once through."""

import uuid
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from pyspark.sql import DataFrame
from pyspark.sql.streaming.listener import StreamingQueryListener

from orders_pipeline import backfill, columns, errors, rejects, sink, table
from orders_pipeline import pipeline as steps
from orders_pipeline.batch import NO_BATCH, Batch, Written
from orders_pipeline.checkpoint import Checkpoint
from orders_pipeline.dead_letters import send

from tests.support.pipeline import DDL, MakePipeline, bad, encoded, event
from tests.support.records import LACKS_A_FIELD
from tests.support.tables import read_table
from tests.support.topics import create_topic, produce, wait_until


def test_good_records_are_rows_and_bad_ones_are_dead_letters(make: MakePipeline) -> None:
    """Sent: two good records in two partitions, three bad ones (one has no key), a tombstone."""
    pipeline = make()
    own = {"trace": b"7", "bytes": b"\xff\x00", "empty": b"", "none": None}
    spoiled = (b"c", {"id": "c"}, [*own.items()], 1)
    pipeline.send(event("a", 1, note="x"), event("b", 2, partition=1), bad("c"), spoiled)
    pipeline.send((None, None, [], 0), (b"never-there", None, [], 1))

    pipeline.drain()

    rows = [(row.id, row.amount, row.note, row._partition, row._offset) for row in pipeline.rows()]
    assert rows == [("a", 1, "x", 0, 0), ("b", 2, None, 1, 0)]
    letters = pipeline.letters()
    assert [(x.partition, x.key, x.value) for x in letters] == [
        (0, *encoded(pipeline.topic, bad("c"))[:2]),
        (0, None, None),
        (1, *encoded(pipeline.topic, spoiled)[:2]),
    ]
    reasons = [x.headers["__connect.errors.exception.class.name"] for x in letters]
    assert reasons == [b"undecodable", b"null_key", b"missing_field"]
    assert letters[2].headers.items() >= own.items()
    assert letters[2].headers["__connect.errors.topic"] == pipeline.topic.name.encode()
    assert letters[2].headers["__connect.errors.partition"] == b"1"
    assert letters[2].headers["__connect.errors.offset"] == b"1"
    message = b"amount"
    assert message in (letters[2].headers["__connect.errors.exception.message"] or b"")
    [balance] = pipeline.balances
    assert (balance.read, balance.written, balance.dead_lettered) == (6, 2, 3)
    assert balance.stale == 1
    assert balance.holds
    group = Consumer(
        {"bootstrap.servers": pipeline.bootstrap_servers, "group.id": pipeline.settings.name}
    )
    ends = group.committed([TopicPartition(pipeline.topic.name, p) for p in (0, 1)], 30)
    assert [end.offset for end in ends] == [3, 3]


@pytest.mark.parametrize(
    ("bad_keys", "limit_bytes", "times"),
    [("", rejects.LIMIT_BYTES, 1), ("xy", rejects.LIMIT_BYTES, 1), ("xy", 0, 2)],
)
def test_kafka_is_read_once_unless_too_many_records_are_bad(
    make: MakePipeline,
    monkeypatch: pytest.MonkeyPatch,
    bad_keys: str,
    limit_bytes: int,
    times: int,
) -> None:
    """Sent: 48 good records and some bad ones. Counted: what Spark reads from Kafka."""
    monkeypatch.setattr(rejects, "LIMIT_BYTES", limit_bytes)
    pipeline = make()
    good = [event(f"k{n}", n, partition=n % 2) for n in range(48)]
    pipeline.send(*good, *(bad(key, n) for n, key in enumerate(bad_keys)))
    read: list[int] = []

    class Listener(StreamingQueryListener):
        def onQueryStarted(self, event):
            pass

        def onQueryProgress(self, event):
            if event.progress.name == pipeline.topic.name:
                read.append(event.progress.numInputRows)

        def onQueryTerminated(self, event):
            pass

    listener = Listener()
    pipeline.spark.streams.addListener(listener)
    try:
        pipeline.drain()
        wait_until(lambda: sum(read) > 0, 30, "Spark reports its progress")
    finally:
        pipeline.spark.streams.removeListener(listener)
    assert sum(read) == (48 + len(bad_keys)) * times
    if bad_keys:
        assert {letter.key for letter in pipeline.letters()} == {b"x", b"y"}


def test_offsets_have_gaps_when_a_producer_rolled_back(make: MakePipeline) -> None:
    """Sent: a transaction of 5, one of 3 that is rolled back, one of 2. Expected: exactly 7."""
    pipeline = make()
    producer = Producer(
        {"bootstrap.servers": pipeline.bootstrap_servers, "transactional.id": pipeline.topic.name}
    )
    producer.init_transactions(30)
    for number, (count, commits) in enumerate([(5, True), (3, False), (2, True)]):
        producer.begin_transaction()
        for n in range(count):
            key, value, _, partition = encoded(pipeline.topic, event(f"t{number}-{n}", n))
            producer.produce(pipeline.topic.name, value, key, partition)
        producer.flush(30)
        if commits:
            producer.commit_transaction(30)
        else:
            producer.abort_transaction(30)

    pipeline.drain()

    keys = [row.id for row in pipeline.rows()]
    assert keys == ["t0-0", "t0-1", "t0-2", "t0-3", "t0-4", "t2-0", "t2-1"]
    assert pipeline.balances[0].read == 7


def test_hot_partition_is_shared_by_several_tasks(make: MakePipeline) -> None:
    """Sent: 100 records, all to one partition, at most 25 a task. Expected: four tasks read it."""
    pipeline = make(kafka={"max_records_per_partition": 25})
    pipeline.send(*(event(f"k{n}", n) for n in range(100)))
    tasks: list[int] = []
    write = sink.write

    def count_tasks(rows: DataFrame, *rest: Any) -> Written:
        tasks.append(rows.rdd.getNumPartitions())
        return write(rows, *rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sink, "write", count_tasks)
        pipeline.drain()
    assert tasks[0] >= 4
    assert len(pipeline.rows()) == 100


def test_fields_named_alike_or_like_a_coordinate_arrive(make: MakePipeline) -> None:
    """Sent: fields that differ in case only, and fields called as the pipeline's own columns."""
    pipeline = make()
    pipeline.write_schema(
        "id STRING NOT NULL, b STRING, B STRING, offset INT, topic STRING, _offset INT, "
        "_metadata STRING"
    )
    value = {"id": "a", "b": "b", "B": "B", "offset": 7, "topic": "t", "_offset": 8}
    value["_metadata"] = "m"
    pipeline.send((b"a", value, [], 1))

    pipeline.drain()

    [row] = pipeline.rows()
    assert (row.id, row.b, row.B_, row.offset, row.topic) == ("a", "b", "B", 7, "t")
    assert (row._offset_, row._metadata, row._offset, row._partition) == (8, "m", 0, 1)


def test_new_field_becomes_a_nullable_column(make: MakePipeline) -> None:
    """Sent: a record, then, once the schema has a field more, a record with that field."""
    pipeline = make()
    pipeline.send(event("a", 1))
    pipeline.drain()
    pipeline.write_schema(f"{DDL}, colour STRING")
    pipeline.send(event("b", 2, colour="red"))

    pipeline.drain()

    assert [(row.id, row.colour) for row in pipeline.rows()] == [("a", None), ("b", "red")]


def test_new_field_is_refused_when_the_settings_say_so(make: MakePipeline) -> None:
    """The table is there; the schema gets a field more. Expected: a refusal that names it."""
    pipeline = make(table={"schema_changes": "refuse"})
    pipeline.send(event("a", 1))
    pipeline.drain()
    pipeline.write_schema(f"{DDL}, colour STRING")

    with pytest.raises(errors.RefusedError, match="colour"):
        pipeline.drain()


def test_changed_type_is_refused(make: MakePipeline) -> None:
    """The table is there; a field gets another type. Expected: a refusal that names both."""
    pipeline = make()
    pipeline.send(event("a", 1))
    pipeline.drain()
    pipeline.write_schema(DDL.replace("amount INT", "amount STRING"))

    with pytest.raises(errors.RefusedError, match=r"amount .* is int; .* has string"):
        pipeline.drain()


def test_breaker_stops_after_one_batch_and_replay_brings_its_records_back(
    make: MakePipeline,
) -> None:
    """Sent: six records, three a batch; the schema requires a field that they lack.

    Expected: one batch of dead letters and a stop; once the schema is right, all six are rows. A
    letter of a record that the stream has yet to read is left to it.
    """
    pipeline = make(
        breaker={"min_rejected": 3, "max_rejected_ratio": 0.5},
        kafka={"max_offsets_per_trigger": 3},
    )
    pipeline.send(*(event(f"k{n}", n) for n in range(6)))
    pipeline.write_schema(f"{DDL}, colour STRING NOT NULL")
    with pytest.raises(errors.BreakerTripped, match="3 of 3 records in batch 0"):
        pipeline.drain()
    letters = pipeline.letters()
    assert len(letters) == 3
    assert pipeline.rows() == []

    pipeline.write_schema(DDL)
    pipeline.drain()
    ahead = [(n, b"99" if n.endswith(".offset") else v) for n, v in letters[0].all_headers]
    again = (letters[0].key, letters[0].value, ahead, letters[0].partition)
    produce(pipeline.bootstrap_servers, pipeline.topic.dead_letters, [again])
    backfill.replay(pipeline.spark, pipeline.topic, reason=LACKS_A_FIELD, since_ms=0)
    backfill.replay(pipeline.spark, pipeline.topic, reason=None, since_ms=0)

    assert [row.id for row in pipeline.rows()] == [f"k{n}" for n in range(6)]
    assert [row._offset for row in pipeline.rows()] == list(range(6))
    assert all(balance.holds for balance in pipeline.balances)


def test_backfill_adds_what_is_missing_and_nothing_twice(make: MakePipeline) -> None:
    """Sent: four records, of which the stream starts after two. Backfilled twice: all four."""
    pipeline = make(kafka={"starting_offsets": '{"0": 2, "1": 0}'})
    pipeline.send(*(event(f"k{n}", n) for n in range(4)), bad("x"))
    pipeline.drain()
    assert [row.id for row in pipeline.rows()] == ["k2", "k3"]

    for _ in range(2):
        backfill.backfill(pipeline.spark, pipeline.topic, {0: 0, 1: 0}, {0: 5, 1: 0})

    assert [row.id for row in pipeline.rows()] == ["k0", "k1", "k2", "k3"]


def test_backfill_is_refused_beyond_the_stream(make: MakePipeline) -> None:
    """The stream stands at 1; a backfill up to 2 would write what the stream will write."""
    pipeline = make()
    pipeline.send(event("a", 1))
    pipeline.drain()
    pipeline.send(event("b", 2))

    with pytest.raises(errors.RefusedError, match="beyond the stream"):
        backfill.backfill(pipeline.spark, pipeline.topic, {0: 0, 1: 0}, {0: 2, 1: 0})


@pytest.mark.parametrize(("start", "end"), [({11: 900}, {0: 1}), ({0: 0}, {0: 1, 11: 0})])
def test_backfill_of_a_partition_that_the_topic_lacks_is_refused(
    make: MakePipeline, start: dict[int, int], end: dict[int, int]
) -> None:
    """The topic has two partitions; a backfill names the twelfth, as its beginning or its end."""
    pipeline = make()
    pipeline.send(event("a", 1))
    pipeline.drain()

    with pytest.raises(errors.RefusedError, match=r"\[11\]; .* has \[0, 1\]"):
        backfill.backfill(pipeline.spark, pipeline.topic, start, end)


def test_what_is_filled_in_is_counted_when_no_row_of_it_is_new(make: MakePipeline) -> None:
    """Backfilled: bad records alone, then a good one that is there. With tasks as in a run."""
    pipeline = make()
    pipeline.send(bad("a"), bad("b", partition=1))
    pipeline.drain()
    pipeline.send(event("c", 1))
    pipeline.drain()
    tasks = "spark.sql.shuffle.partitions"
    before = str(pipeline.spark.conf.get(tasks))
    pipeline.spark.conf.set(tasks, "2")
    try:
        backfill.backfill(pipeline.spark, pipeline.topic, {0: 0, 1: 0}, {0: 1, 1: 1})
        backfill.backfill(pipeline.spark, pipeline.topic, {0: 1, 1: 1}, {0: 2, 1: 1})
    finally:
        pipeline.spark.conf.set(tasks, before)

    found = [(balance.dead_lettered, balance.written) for balance in pipeline.balances]
    assert found == [(2, 0), (0, 1), (2, 0), (0, 0)]
    assert all(balance.holds for balance in pipeline.balances)


def test_two_topics_get_a_table_each(make: MakePipeline) -> None:
    """Sent: a record to each of two topics of one process; each is in its own table."""
    names = [f"first-{uuid.uuid4().hex[:8]}", f"second-{uuid.uuid4().hex[:8]}"]
    pipeline = make(topics=names)
    for name in names:
        pipeline.send(event(name, 1), topic=name)

    pipeline.drain()

    for name in names:
        held = read_table(pipeline.spark, pipeline.settings.topic_settings(name))
        assert [row.id for row in held] == [name]


def test_transform_that_drops_coordinates_is_refused(
    make: MakePipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A transform that selects its own columns only. Expected: a refusal that says what to keep."""
    pipeline = make()
    monkeypatch.setattr(columns, "transform", lambda topic, rows: rows.select("id", "amount"))

    with pytest.raises(errors.RefusedError, match="_offset"):
        pipeline.drain()


@pytest.mark.parametrize(
    ("transform", "why"),
    [
        (lambda topic, rows: rows.where("amout > 1"), "amout"),
        (lambda topic, rows: None, "AttributeError: 'NoneType'"),
    ],
)
def test_transform_that_fails_is_refused(
    make: MakePipeline, monkeypatch: pytest.MonkeyPatch, transform: Any, why: str
) -> None:
    """A column that is not there, and a return that was forgotten. Expected: a line for each."""
    pipeline = make()
    monkeypatch.setattr(columns, "transform", transform)

    said = rf"^transform\.py fails for .*: .*{why}.*Nothing was written"
    with pytest.raises(errors.SettingsError, match=said):
        pipeline.drain()


@pytest.mark.parametrize(
    ("transform", "why"),
    [
        (lambda topic, rows: rows.where("false"), "gives no row"),
        (lambda topic, rows: rows.limit(10).where("amount > 1"), "limits how many rows"),
    ],
)
def test_transform_that_leaves_records_uncounted_is_refused(
    make: MakePipeline, monkeypatch: pytest.MonkeyPatch, transform: Any, why: str
) -> None:
    """Spark would not read what such a transform never asks for. Expected: a refusal to start."""
    pipeline = make()
    monkeypatch.setattr(columns, "transform", transform)

    with pytest.raises(errors.RefusedError, match=why):
        pipeline.drain()


@pytest.mark.parametrize(
    "setting",
    [{"partition_columns": ["day"]}, {"newest_by": "changed_at"}, {"newest_by": "amount"}],
)
def test_setting_that_names_a_wrong_column_is_refused(
    make: MakePipeline, setting: dict[str, Any]
) -> None:
    """Two columns that the table would not have, and one that is no TIMESTAMP."""
    pipeline = make(table=setting)

    with pytest.raises(errors.SettingsError, match=r"names '(day|changed_at|amount)', which"):
        pipeline.drain()
    assert not table.exists(pipeline.spark, pipeline.topic)


def test_balance_holds_when_transform_drops_rows_and_columns(
    make: MakePipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sent: two good records and a bad one; transform keeps one of them, without its note."""
    pipeline = make()
    for module in (steps, columns):
        monkeypatch.setattr(
            module, "transform", lambda topic, rows: rows.where("amount > 1").drop("note")
        )
    pipeline.send(event("a", 1), event("b", 2), bad("c"))

    pipeline.drain()

    [balance] = pipeline.balances
    assert (balance.read, balance.written, balance.filtered, balance.dead_lettered) == (3, 1, 1, 1)
    assert balance.holds


def test_records_of_10_mb_arrive_whole(make: MakePipeline) -> None:
    """Sent: a good one and a bad one. Expected: a row and a letter with every byte."""
    pipeline = make()
    note = "x" * 10_000_000
    pipeline.send(event("a", 1, note=note), (b"b", note.encode(), [], 1))

    pipeline.drain()

    assert [row.note for row in pipeline.rows()] == [note]
    assert [letter.value for letter in pipeline.letters()] == [note.encode()]


def test_large_record_that_is_bad_is_truncated_in_its_letter(
    make: MakePipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sent: bad records with more than the dead-letter topic takes in the value, and in the rest.

    Expected: the start of each, marked; headers that are too large are left out. So for the reason.
    """
    monkeypatch.setattr(f"{send.__module__}.MESSAGE_CHARACTERS", 10)
    pipeline = make()
    create_topic(
        pipeline.bootstrap_servers, pipeline.topic.dead_letters, 2, {"max.message.bytes": "20000"}
    )
    pipeline.send((b"a", b"{" + b"x" * 50_000, [], 0))
    pipeline.send((b"k" * 50_000, b"{", [("large", b"x" * 50_000)], 1))

    pipeline.drain()

    value, rest = sorted(pipeline.letters(), key=lambda letter: letter.partition)
    assert value.value
    assert value.value.startswith(b"{xxx")
    assert value.headers["ingest.truncated.from.bytes"] == b"50001"
    assert len(value.headers["__connect.errors.exception.message"] or b"") == 10
    assert rest.key
    assert set(rest.key) == {ord("k")}
    assert rest.value == b"{"
    assert rest.headers["ingest.truncated.from.bytes"] == b"1"
    assert "large" not in rest.headers


def test_broker_that_does_not_answer_is_named(
    make: MakePipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing listens on port 1. Expected: an error that says so, not a wait without end."""
    pipeline = make()
    monkeypatch.setattr("orders_pipeline.kafka_topics.TIMEOUT_S", 1)
    nobody = pipeline.settings.kafka.model_copy(update={"bootstrap_servers": "localhost:1"})
    pipeline.settings = pipeline.settings.model_copy(update={"kafka": nobody})

    with pytest.raises(errors.NoAnswerError, match="localhost:1"):
        pipeline.drain()


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (7, r"of batch 7 of .*\.DLT: .*The batch is not committed"),
        (NO_BATCH, r"of the backfill of .*\.DLT: .*run the same command again"),
    ],
)
def test_letters_that_find_no_broker_are_told_with_what_was_written(
    make: MakePipeline, monkeypatch: pytest.MonkeyPatch, number: int, said: str
) -> None:
    """Nothing listens on port 1. Expected: what holds of a batch, and what of a backfill."""
    pipeline = make()
    monkeypatch.setattr("orders_pipeline.kafka_topics.TIMEOUT_S", 1)
    nobody = pipeline.settings.kafka.model_copy(update={"bootstrap_servers": "localhost:1"})
    settings = pipeline.settings.model_copy(update={"kafka": nobody})
    topic = settings.topic_settings(pipeline.topic.name)
    batch = Batch(id=number, ends={}, pipeline="p", schema="")

    with pytest.raises(errors.DeadLetterError, match=said) as failed:
        send(pipeline.spark.range(0), batch, topic)
    assert "Nothing was written" not in str(failed.value)


def test_query_stops_when_the_dead_letter_topic_cannot_be_made(make: MakePipeline) -> None:
    """A topic's name has 249 characters at most; with .DLT at its end, this one's has 250."""
    pipeline = make(topics=[uuid.uuid4().hex + "x" * 214])
    pipeline.send(event("a", 1), bad("b"))

    with pytest.raises(errors.DeadLetterError, match="could not be made with 2 partitions"):
        pipeline.drain()


def test_query_stops_when_the_dead_letter_topic_takes_none(make: MakePipeline) -> None:
    """The dead-letter topic takes 100 bytes at most. Expected: a stop, nothing committed."""
    pipeline = make()
    tiny = {"max.message.bytes": "100"}
    create_topic(pipeline.bootstrap_servers, pipeline.topic.dead_letters, 2, tiny)
    pipeline.send(event("a", 1), bad("b"))

    with pytest.raises(errors.DeadLetterError, match="not committed"):
        pipeline.drain()
    checkpoint = Checkpoint(pipeline.spark, pipeline.topic.checkpoint, pipeline.topic.name)
    assert checkpoint.committed() is None


def test_query_goes_on_when_the_settings_say_so_and_names_what_is_lost(
    make: MakePipeline, caplog: pytest.LogCaptureFixture
) -> None:
    """The same, with on_failure = continue. Expected: the log has the coordinates of the letter."""
    pipeline = make(dead_letters={"on_failure": "continue"})
    tiny = {"max.message.bytes": "100"}
    create_topic(pipeline.bootstrap_servers, pipeline.topic.dead_letters, 2, tiny)
    pipeline.send(event("a", 1), bad("b"))

    pipeline.drain()

    assert [row.id for row in pipeline.rows()] == ["a"]
    assert "'_partition': 0, '_offset': 1, 'reason': 'undecodable'" in caplog.text
    assert (pipeline.balances[0].logged, pipeline.balances[0].holds) == (1, True)
