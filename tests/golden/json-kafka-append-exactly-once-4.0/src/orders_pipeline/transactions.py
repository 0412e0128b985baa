"""Sends the rows of a source partition in transactions, each of which commits its offset as well.

Runs in Spark's workers. So readers that ask for committed records see the rows of a transaction and
never without the offset below which no row is sent again.
"""

import base64
import json
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from pyspark import TaskContext

from .positions import HEADER, OPEN_S, Position, fail_if_hidden, from_committed, now, to_commit

SENT = "partition INT, written BIGINT, refused STRING, code INT, problem STRING"
"""What became of a source partition's rows: ``refused`` is ``Position.refused`` as JSON; ``code``
and ``problem`` are null where all is well."""
COMMIT_EVERY_S = 10
"""A transaction is committed before the next row after this, well before Kafka's 60 s are over."""
DELIVERY_S = 35
"""A record that its topic has not taken after this is given up, and with it the transaction. It may
wait for all that is queued before it."""
ROLL_BACK_S = 10
"""How long that may take; what is not rolled back then, the next start or the brokers roll back."""
TIMEOUT_S = 60
"""Longer than those three together: after it the brokers end a transaction, and its producer is
answered as if another process had begun."""
QUEUE_KIB = 4 * 1024
"""Records on their way to the brokers, at most: little enough for a topic that takes 120 kB/s of
each task."""
SPARE_KIB = 1024
"""Room in the queue beside the largest record."""
NOTED_BYTES = 3000
"""What is noted of a batch's refused rows beside an offset, at most: Kafka takes 4096 bytes there,
unless its brokers are told otherwise, and some of them say which batch it is."""
FENCED = (
    KafkaError._FENCED,
    KafkaError.INVALID_PRODUCER_EPOCH,
    KafkaError.PRODUCER_FENCED,
    KafkaError.INVALID_PRODUCER_ID_MAPPING,
)
"""A newer process has begun with this transactional id, or the brokers ended the transaction."""
ROLLED_BACK = (KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT)
"""What becomes of records by a roll-back: not why there was one."""
MOVING = (
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
)
"""The broker that keeps the group is just being replaced by another."""
Header = tuple[str, str | bytes | None]


@dataclass(frozen=True)
class Work:
    """What a task needs to know, in plain values, since it travels there."""

    client: dict[str, Any]
    transactional_id: str
    group: str
    source: str
    partition: int
    end: int
    """Where the batch ends in the source partition."""
    pipeline: str
    batch: int
    schema: str
    limit_bytes: int
    """The largest record that the output topic takes."""


def sender(works: list[Work]) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function for ``mapInArrow``: the nth task does the nth work and gives one row of SENT.

    Its rows are *output records* (``sink.py``) of one source partition, in the order of their
    offsets.
    """

    return partial(_send, works)


def _send(works: list[Work], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    work = works[TaskContext.get().partitionId()]  # type: ignore[union-attr]
    sent = {"partition": work.partition, "written": 0, "refused": "{}"}
    failed: list[KafkaError] = []

    def note_first(error: KafkaError, topic: str) -> None:
        if not failed and error.code() not in ROLLED_BACK:
            failed.append(KafkaError(error.code(), f"{error.str()} (to {topic})"))

    try:
        sender = _Sender(work, note_first)
        written, refused = sender.send(batches)
        sent |= {"written": written, "refused": json.dumps(refused)}
    except KafkaException as error:
        # Of records that were not delivered, a commit says no more than how many they are.
        errors = [*failed, error.args[0]]
        cause = next((each for each in errors if each.code() in FENCED), errors[0])
        sent |= {"code": cause.code(), "problem": cause.str()}
    yield pa.RecordBatch.from_pylist([sent], schema=_SENT)


_SENT = pa.schema(
    [
        pa.field("partition", pa.int32()),
        pa.field("written", pa.int64()),
        pa.field("refused", pa.string()),
        pa.field("code", pa.int32()),
        pa.field("problem", pa.string()),
    ]
)


class _Sender:
    """A transactional producer and what it has done."""

    def __init__(self, work: Work, on_failure: Callable[[KafkaError, str], None]) -> None:
        self._work = work
        self._consumer = Consumer(
            work.client | {"group.id": work.group, "enable.auto.commit": False}
        )
        self._producer = Producer(
            work.client
            | {
                "transactional.id": work.transactional_id,
                "transaction.timeout.ms": TIMEOUT_S * 1000,
                "message.timeout.ms": DELIVERY_S * 1000,
                "message.max.bytes": max(work.limit_bytes, 1000),
                "batch.size": min(work.limit_bytes, 1_000_000),
                "queue.buffering.max.kbytes": max(QUEUE_KIB, work.limit_bytes // 1024 + SPARE_KIB),
                "linger.ms": 20,
                "partitioner": "murmur2_random",  # as Java's producers choose by key
                "delivery.report.only.error": True,
                "on_delivery": lambda error, record: on_failure(error, record.topic()),
            }
        )
        # Ends the transaction that another process may have open. Only then is the group's offset
        # one that nobody can change any more.
        self._producer.init_transactions(TIMEOUT_S)
        held = self._held()
        self._position = held.offset if held else 0
        self._refused = held.refused if held and held.batch == work.batch else {}
        self._began_at: float | None = None

    def send(self, batches: Iterator[pa.RecordBatch]) -> tuple[int, dict[str, list[int]]]:
        """Sends what is not there yet; how many rows that were, and which were refused."""
        written = 0
        try:
            for batch in batches:
                written += self._send(batch)
            if self._position < self._work.end or self._began_at:
                self._begin()
                self._commit(self._work.end)
        except BaseException:
            self._roll_back()
            raise
        return written, self._refused

    def _send(self, batch: pa.RecordBatch) -> int:
        produce, work, held = self._producer.produce, self._work, self._position
        source = (HEADER + "topic", work.source.encode())
        partition = (HEADER + "partition", b"%d" % work.partition)
        places = ("_partition", "_offset", "_timestamp")
        names = ("topic", "partition", "key", "value", "headers", "refused")
        written = 0
        for ours, offset, timestamp_ms, topic, to, key, value, text, why in zip(
            *(batch.column(name).to_pylist() for name in (*places, *names)), strict=True
        ):
            if offset < held:
                continue
            if ours != work.partition:
                raise ValueError(f"partition {ours} met the task of partition {work.partition}")
            if why is not None:
                self._refuse(offset, why)
                continue
            headers = [
                *(_headers(text) if text else []),
                source,
                partition,
                (HEADER + "offset", b"%d" % offset),
                (HEADER + "timestamp", b"%d" % timestamp_ms),
            ]
            if self._has_been_open_for(COMMIT_EVERY_S):
                self._commit(offset)
            self._begin()
            while True:
                try:
                    produce(topic, value, key, -1 if to is None else to, headers=headers)
                    break
                except BufferError as error:
                    self._wait_for_room(error)
            written += 1
        self._producer.poll(0)
        return written

    def _wait_for_room(self, error: BufferError) -> None:
        if self._has_been_open_for(COMMIT_EVERY_S + DELIVERY_S):
            problem = f"for {DELIVERY_S} s there was no room for another record: {error}"
            raise KafkaException(KafkaError(KafkaError._QUEUE_FULL, problem))
        self._producer.poll(0.01)

    def _has_been_open_for(self, seconds: float) -> bool:
        """True when a transaction is open and has been for longer than that."""
        return self._began_at is not None and time.monotonic() - self._began_at > seconds

    def _roll_back(self) -> None:
        try:
            self._producer.abort_transaction(ROLL_BACK_S)
        except KafkaException as error:
            # Whoever slept for long may meet other errors first; this one says why.
            if error.args[0].code() in FENCED:
                raise

    def _begin(self) -> None:
        if not self._began_at:
            self._producer.begin_transaction()
            self._began_at = time.monotonic()

    def _commit(self, offset: int) -> None:
        work = self._work
        position = Position(offset, work.pipeline, work.batch, work.schema, now(), self._refused)
        committed = [to_commit(work.source, work.partition, position)]
        group = self._consumer.consumer_group_metadata()
        send_offsets = self._producer.send_offsets_to_transaction
        _patiently(lambda: _in_time(lambda: send_offsets(committed, group, TIMEOUT_S)))
        _patiently(lambda: self._producer.commit_transaction(TIMEOUT_S))
        self._began_at = None

    def _refuse(self, offset: int, why: str) -> None:
        offsets = self._refused.setdefault(why, [])
        if offset in offsets:
            return
        offsets.append(offset)
        if len(json.dumps(self._refused)) > NOTED_BYTES:
            count = sum(map(len, self._refused.values()))
            problem = f"{count} rows of a batch are refused, too many, the last since {why}"
            raise KafkaException(KafkaError(KafkaError.INVALID_RECORD, problem))

    def _held(self) -> Position | None:
        asked = [TopicPartition(self._work.source, self._work.partition)]
        # Asks until no other's transaction hides the answer.
        [found] = _patiently(lambda: self._consumer.committed(asked, OPEN_S))
        fail_if_hidden(found)
        position = from_committed(found)
        return position if position and position.pipeline == self._work.pipeline else None


def _headers(text: str) -> list[Header]:
    """From the JSON that Spark makes of them, in which a value that is null is left out."""
    pairs = [(each["key"], each.get("value")) for each in json.loads(text)]
    return [(key, None if value is None else base64.b64decode(value)) for key, value in pairs]


def _in_time(action: Callable[[], None]) -> None:
    """Does it in a thread that is left behind if it takes longer than it may.

    Where the broker that keeps the group has gone, librdkafka may wait for it without end, whatever
    its time limit: https://github.com/confluentinc/librdkafka/issues/5511.
    """
    answer: Future[None] = Future()

    def act() -> None:
        try:
            action()
            answer.set_result(None)
        except BaseException as error:
            answer.set_exception(error)

    threading.Thread(target=act, daemon=True).start()
    try:
        answer.result(TIMEOUT_S)
    except TimeoutError:
        problem = f"no answer from the broker that keeps the group in {TIMEOUT_S} s"
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT, problem)) from None


def _patiently(action: Callable[[], Any]) -> Any:
    """Does it again while the brokers say that it will go soon."""
    deadline = time.monotonic() + TIMEOUT_S
    asked_why = False
    while True:
        try:
            return action()
        except KafkaException as error:
            code = error.args[0].code()
            if code == KafkaError._STATE and not asked_why:
                asked_why = True  # the transaction failed meanwhile; asked again, it says of what
                continue
            soon = error.args[0].retriable() or code in MOVING
            if not soon or time.monotonic() > deadline:
                raise
            time.sleep(0.1)
