"""The output topic: what its records are, and what becomes of a batch when it takes none."""

import json
import shutil
import threading
import uuid
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition
from pyspark.sql import functions as F

from orders_pipeline import (
    backfill,
    doctor,
    kafka,
    positions,
    producing,
    sink,
    table,
)
from orders_pipeline.checkpoint import Checkpoint
from orders_pipeline.errors import (
    BatchError,
    BreakerTripped,
    NoAnswerError,
    RefusedError,
)
from orders_pipeline.settings import Settings

from tests.support.output import decode_value
from tests.support.pipeline import MakePipeline, Pipeline, bad, event
from tests.support.tables import drop_table
from tests.support.topics import Record, create_topic, delete_topic, read_topic
from tests.support.transforms import transform_to

HEADERS = [
    ("trace", b"\xff\x00"),
    ("empty", b""),
    ("trace", None),
    ("ingest.offset", b"99"),
    ("trace", b"\xff\x00"),
]
"""Two that are the same, one of ours: the record came out of such a pipeline."""


def output(pipeline: Pipeline, name: str | None = None) -> list[Record]:
    """What a reader of committed records finds."""
    return read_topic(pipeline.bootstrap_servers, name or pipeline.topic.location)


def ids(pipeline: Pipeline, name: str | None = None) -> list[str]:
    return [decode_value(pipeline.topic, each.value)["id"] for each in output(pipeline, name)]


def test_record_has_the_columns_and_the_source_in_its_headers(make: MakePipeline) -> None:
    """Sent: a record to each of two partitions. Expected: the same partitions, no key."""
    pipeline = make()
    pipeline.send(event("a", 1, note="x"), event("b", 2, partition=1))

    pipeline.drain()

    first, second = output(pipeline)
    assert decode_value(pipeline.topic, first.value) == {"id": "a", "amount": 1, "note": "x"}
    assert decode_value(pipeline.topic, second.value) == {"id": "b", "amount": 2, "note": None}
    assert (first.key, first.partition, second.partition) == (None, 0, 1)
    assert int(second.headers.pop("ingest.timestamp") or 0) > 0
    assert second.headers == {
        "ingest.topic": pipeline.topic.name.encode(),
        "ingest.partition": b"1",
        "ingest.offset": b"0",
    }


def test_headers_are_passed_on_as_they_were_before_ours(make: MakePipeline) -> None:
    """Sent: a record with headers, one without; once again by a backfill into an empty topic."""
    pipeline = make()
    key, value, _, partition = event("a", 1)
    pipeline.send((key, value, HEADERS, partition), event("b", 2, partition=1))

    pipeline.drain()

    found = output(pipeline)
    ours = ["ingest.topic", "ingest.partition", "ingest.offset", "ingest.timestamp"]
    assert [record.all_headers[:-4] for record in found] == [HEADERS, []]
    assert [[name for name, _ in record.all_headers[-4:]] for record in found] == [ours, ours]
    assert [row._offset for row in pipeline.rows()] == [0, 0]
    drop_table(pipeline.spark, pipeline.topic)
    create_topic(pipeline.bootstrap_servers, pipeline.topic.location, 2)
    pipeline.drain(rebind=True)
    backfill.backfill(pipeline.spark, pipeline.topic, {}, {0: 1, 1: 1})
    assert [record.all_headers for record in output(pipeline)] == [
        record.all_headers for record in found
    ]


@pytest.mark.parametrize(
    ("key_columns", "key"), [(["id"], b"a"), (["id", "amount"], b'{"id":"a","amount":1}')]
)
def test_key_columns_make_the_key(make: MakePipeline, key_columns: list[str], key: bytes) -> None:
    """Sent: two records of one key to two partitions. Expected: both in the one of the key."""
    pipeline = make(table={"key_columns": key_columns})
    pipeline.send(event("a", 1), event("a", 1, partition=1))

    pipeline.drain()

    found = output(pipeline)
    assert [record.key for record in found] == [key, key]
    assert len({record.partition for record in found}) == 1


def test_column_names_the_topic_of_a_row(
    make: MakePipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sent: two records, of which one names another topic. Replayed: nothing more."""
    other = f"other-{uuid.uuid4().hex[:8]}"
    pipeline = make(table={"topic_column": "to"})
    transform_to(monkeypatch, to=F.when(F.col("amount") > 1, F.lit(other)))
    create_topic(pipeline.bootstrap_servers, other, 1)
    pipeline.send(event("a", 1), event("b", 2))

    pipeline.drain()

    assert ids(pipeline) == ["a"]
    assert ids(pipeline, other) == ["b"]


def test_row_that_would_come_round_again_stops_the_query(
    make: MakePipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row names the topic that it came from. Expected: a stop, nothing sent."""
    pipeline = make(table={"topic_column": "to"})
    transform_to(monkeypatch, to=F.col("_topic"))
    pipeline.send(event("a", 1))

    with pytest.raises(BatchError, match="names a topic that this pipeline reads"):
        pipeline.drain()
    assert output(pipeline) == []


@pytest.mark.parametrize("suffix", ["", ".DLT"])
def test_output_that_is_a_topic_of_the_pipelines_own_is_refused(
    make: MakePipeline, suffix: str
) -> None:
    """The output topic is the source, or the source's dead-letter topic."""
    settings = make().settings
    name = settings.topics[0]

    with pytest.raises(ValueError, match="which this pipeline reads or has"):
        Settings(**settings.model_dump() | {"table": {"topic_name": name + suffix}})


def test_moment_keeps_its_microseconds(make: MakePipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the value, and in a key of two columns."""
    pipeline = make(table={"key_columns": ["id", "at"]})
    at = F.timestamp_micros(F.lit(1_000_001))
    transform_to(monkeypatch, at=at, local=at.cast("timestamp_ntz"))
    pipeline.send(event("a", 1))

    pipeline.drain()

    [record] = output(pipeline)
    local = "1970-01-01T00:00:01.000001"
    row = {"id": "a", "amount": 1, "note": None, "at": f"{local}Z", "local": local}
    assert decode_value(pipeline.topic, record.value) == row
    assert json.loads(record.key or b"") == {"id": "a", "at": f"{local}Z"}


def test_missing_output_topic_is_refused_when_the_settings_say_so(make: MakePipeline) -> None:
    """The settings say that somebody else makes the output topic. Expected: a refusal."""
    pipeline = make(table={"missing": "refuse"})
    pipeline.send(event("a", 1))

    assert not doctor.examine(pipeline.spark, pipeline.settings)
    with pytest.raises(RefusedError, match="does not exist"):
        pipeline.drain()
    assert not table.exists(pipeline.spark, pipeline.topic)


def test_recreated_output_topic_is_refused(make: MakePipeline) -> None:
    """The output topic is made anew between two runs: the rows that were in it are not.

    Then, as the refusal says, the checkpoint's folder is removed. Expected: all are sent again.
    """
    pipeline = make()
    pipeline.send(event("a", 1))
    pipeline.drain()
    delete_topic(pipeline.bootstrap_servers, pipeline.topic.location)
    create_topic(pipeline.bootstrap_servers, pipeline.topic.location, 2)

    with pytest.raises(RefusedError, match=r"was replaced by another.*remove .* folder first"):
        pipeline.drain()
    shutil.rmtree(pipeline.topic.checkpoint)
    pipeline.drain(rebind=True)
    assert ids(pipeline) == ["a"]


@pytest.mark.parametrize(
    ("note", "headers"), [("x" * 30_000, []), ("", [("large", b"x" * 30_000)])]
)
def test_row_that_is_too_large_is_a_dead_letter(
    make: MakePipeline, note: str, headers: list[tuple[str, bytes]]
) -> None:
    """Sent: a small record, a large one, a small one. The output topic takes 20,000 bytes."""
    pipeline = make()
    tiny = {"max.message.bytes": "20000"}
    create_topic(pipeline.bootstrap_servers, pipeline.topic.location, 2, tiny)
    key, value, _, partition = event("b", 2, note=note)
    pipeline.send(event("a", 1), (key, value, headers, partition), event("c", 3))

    pipeline.drain()

    assert [row.id for row in pipeline.rows()] == ["a", "c"]
    [letter] = pipeline.letters()
    assert letter.headers["__connect.errors.exception.class.name"] == b"refused"
    assert letter.headers["__connect.errors.offset"] == b"1"
    [balance] = pipeline.balances
    assert (balance.written, balance.dead_lettered, balance.holds) == (2, 1, True)


def test_row_without_a_key_is_a_dead_letter_where_the_topic_is_compacted(
    make: MakePipeline,
) -> None:
    """Sent: three records, one of them with null as key, which brokers refuse there.

    That is more than the breaker lets by. Expected: it says what the dead letters are.
    """
    breaker = {"min_rejected": 1, "max_rejected_ratio": 0.3}
    pipeline = make(table={"key_columns": ["note"]}, breaker=breaker)
    compacted = {"cleanup.policy": "compact,delete"}
    create_topic(pipeline.bootstrap_servers, pipeline.topic.location, 2, compacted)
    pipeline.send(event("a", 1, note="x"), event("b", 2), event("c", 3, note="y"))

    with pytest.raises(BreakerTripped, match=r"most of them as refused, .* does not take them"):
        pipeline.drain()

    assert ids(pipeline) == ["a", "c"]
    [letter] = pipeline.letters()
    assert letter.headers["__connect.errors.exception.class.name"] == b"refused"
    assert letter.headers["__connect.errors.offset"] == b"1"
    with pytest.raises(RefusedError, match=r"is compacted: .* Nothing was written"):
        backfill.replay(pipeline.spark, pipeline.topic, reason="refused", since_ms=0)
    assert ids(pipeline) == ["a", "c"]


@pytest.mark.parametrize(("limit_bytes", "row_bytes"), [(32 * 2**20, 17 * 2**20), (2**31 - 1, 10)])
def test_row_is_sent_when_the_topic_takes_more_than_clients_do_unasked(
    make: MakePipeline, monkeypatch: pytest.MonkeyPatch, limit_bytes: int, row_bytes: int
) -> None:
    """Sent: a row larger than a client's usual queue; a small one to a topic that takes any size.

    Expected: it is there, and no dead letter.
    """
    pipeline = make()
    any_size = {"max.message.bytes": str(limit_bytes)}
    create_topic(pipeline.bootstrap_servers, pipeline.topic.location, 2, any_size)
    transform_to(monkeypatch, note=F.repeat(F.lit("x"), row_bytes))
    pipeline.send(event("a", 1))

    pipeline.drain()

    [record] = output(pipeline)
    assert len(decode_value(pipeline.topic, record.value)["note"]) == row_bytes
    assert [balance.dead_lettered for balance in pipeline.balances] == [0]


def test_backfill_sends_the_newest_record_of_a_key_last(make: MakePipeline) -> None:
    """Sent: 40 records of one key; the output topic is made anew and filled by a backfill.

    With as many tasks as a job has. Expected: the order of the source.
    """
    pipeline = make(table={"key_columns": ["id"]})
    pipeline.send(*(event("a", n) for n in range(40)))
    pipeline.drain()
    drop_table(pipeline.spark, pipeline.topic)
    create_topic(pipeline.bootstrap_servers, pipeline.topic.location, 2)
    pipeline.drain(rebind=True)
    shuffled = "spark.sql.shuffle.partitions"
    before = pipeline.spark.conf.get(shuffled)
    pipeline.spark.conf.set(shuffled, "8")
    try:
        backfill.backfill(pipeline.spark, pipeline.topic, {}, {0: 40})
    finally:
        pipeline.spark.conf.set(shuffled, str(before))

    sent = [decode_value(pipeline.topic, each.value)["amount"] for each in output(pipeline)]
    assert sent == list(range(40))


def test_backfill_sends_no_row_again_when_a_transaction_of_anothers_hides_it(
    make: MakePipeline,
) -> None:
    """Another has a transaction open in the output topic, and ends it 2 s into the backfill."""
    pipeline = make()
    servers, name = pipeline.bootstrap_servers, pipeline.topic.location
    create_topic(servers, name, 1)
    other = Producer(kafka.client_options(servers) | {"transactional.id": uuid.uuid4().hex})
    other.init_transactions(30)
    other.begin_transaction()
    other.produce(name, b"{}")
    other.flush(30)
    pipeline.send(event("a", 1))
    pipeline.drain()
    assert output(pipeline) == []
    ends = threading.Timer(2, other.abort_transaction, [30])
    ends.start()

    backfill.backfill(pipeline.spark, pipeline.topic, {}, {0: 1, 1: 0})

    ends.join()
    assert ids(pipeline) == ["a"]


def test_lost_checkpoint_goes_on_in_each_partition_when_another_pipeline_fed_some(
    make: MakePipeline,
) -> None:
    """Fed: a partition by this checkpoint, the other by one before it. Then this one is lost.

    Expected: the refusal names where each of them ends.
    """
    pipeline = make()
    topic = pipeline.topic
    pipeline.send(event("a", 1), event("b", 2, partition=1), event("c", 3, partition=1))
    pipeline.drain()
    older = positions.all_held(topic)[1]._replace(pipeline="older.0", sent_at="2026-01-01")
    note = positions.to_commit(topic.name, 1, older)
    kafka.commit(topic.settings, positions.group(topic), [note])
    shutil.rmtree(topic.checkpoint)

    with pytest.raises(RefusedError) as refused:
        pipeline.drain()

    ends = json.dumps({"0": 1, "1": 2})
    assert f"PIPELINE_KAFKA__STARTING_OFFSETS='{ends}'" in str(refused.value)


def test_partition_whose_position_the_brokers_forgot_is_named_when_a_checkpoint_is_lost(
    make: MakePipeline,
) -> None:
    """Of two partitions that were sent, one has no offset in the group any more."""
    pipeline = make()
    topic = pipeline.topic
    pipeline.send(event("a", 1), event("b", 2, partition=1))
    pipeline.drain()
    nothing = TopicPartition(topic.name, 1, 1)
    kafka.commit(topic.settings, positions.group(topic), [nothing])
    shutil.rmtree(topic.checkpoint)

    with pytest.raises(RefusedError, match=r"partitions \[1\] have records and no offset there"):
        pipeline.drain()


def test_batch_without_a_good_record_is_finished(make: MakePipeline) -> None:
    """Sent: bad records alone. Expected: dead letters, a balance, nothing in the topic."""
    pipeline = make()
    pipeline.send(bad("a"), bad("b", partition=1))

    pipeline.drain()

    assert len(pipeline.letters()) == 2
    assert [balance.holds for balance in pipeline.balances] == [True]
    assert output(pipeline) == []


def test_query_stops_when_the_output_topic_goes_while_a_batch_is_sent(
    make: MakePipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sent: a record; the topic is deleted before its row goes there.

    Expected: a sentence, nothing committed, and a refusal of the next start.
    """
    pipeline = make()
    pipeline.send(event("a", 1))
    produce = producing.produce

    def produce_without_topic(*arguments: Any) -> Any:
        delete_topic(pipeline.bootstrap_servers, pipeline.topic.location)
        return produce(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(sink, "produce", produce_without_topic)
        with pytest.raises(NoAnswerError, match=r"\.out' .* Unknown topic or partition"):
            pipeline.drain()

    checkpoint = Checkpoint(pipeline.spark, pipeline.topic.checkpoint, pipeline.topic.name)
    assert checkpoint.committed() is None
    with pytest.raises(RefusedError, match="is gone"):
        pipeline.drain()
