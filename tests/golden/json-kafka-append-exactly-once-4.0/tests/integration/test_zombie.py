"""A process that was taken for dead and is not: its rows do not count. And what it left open."""

import os
import signal
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, Producer

from orders_pipeline import kafka, positions, table, transactions
from orders_pipeline.positions import Position
from orders_pipeline.settings import Topic
from orders_pipeline.transactions import Work

from tests.integration.test_process import Job
from tests.support.pipeline import MakePipeline, event
from tests.support.topics import end_offsets, read_topic, wait_until


def test_process_that_was_only_asleep_is_shut_out(make: MakePipeline, tmp_path: Path) -> None:
    """Stopped: a job and its workers, with a transaction open; then another runs, then it goes on.

    Expected: the other sends each row once, what the first had open is rolled back, and the first
    ends with a sentence.
    """
    count = 100_000
    pipeline = make()
    pipeline.send(*(event(f"k{n}", n, partition=n % 2) for n in range(count)))
    job = Job(pipeline, tmp_path)
    servers, name = pipeline.bootstrap_servers, pipeline.topic.location

    def has_open_transactions() -> bool:
        return table.exists(pipeline.spark, pipeline.topic) and all(
            end > 0 for end in end_offsets(servers, name).values()
        )

    try:
        wait_until(has_open_transactions, 120, "the job has sent rows in each partition")
        signal_session(job.pid, signal.SIGSTOP)
        assert "balance {" not in job.log.read_text()
        sent_by_the_first = sum(end_offsets(servers, name).values())
        assert len(read_topic(servers, name)) < sent_by_the_first
        pipeline.drain()
        assert len(read_topic(servers, name)) == count
        signal_session(job.pid, signal.SIGCONT)
        assert job.exit_code() == 3, job.log.read_text()[-3000:]
    finally:
        signal_session(job.pid, signal.SIGCONT)
        job.end()
    assert "Another process sends the rows of" in job.log.read_text()
    held = read_topic(servers, name)
    sources = {(each.headers["ingest.partition"], each.headers["ingest.offset"]) for each in held}
    assert len(held) == len(sources) == count


def test_positions_are_waited_for_while_a_transaction_is_open(make: MakePipeline) -> None:
    """Left open: a transaction that moves a position on. Expected: the one from before it."""
    pipeline = make()
    pipeline.send(event("a", 1), event("b", 2, partition=1))
    pipeline.drain()
    before = positions.all_held(pipeline.topic)

    with left_open(pipeline.topic):
        assert positions.all_held(pipeline.topic) == before
    assert sorted(before) == [0, 1]


def test_task_sends_no_row_again_when_a_transaction_is_open(make: MakePipeline) -> None:
    """As above, as a task sees it: it is given a row that is there."""
    pipeline = make()
    pipeline.send(event("a", 1))
    pipeline.drain()
    held = positions.all_held(pipeline.topic)[0]

    with left_open(pipeline.topic):
        sender = new_sender(pipeline.topic, held, end=1)
    assert sender.send(iter([rows_to(pipeline.topic, 1)])) == (0, {})


def test_rows_are_committed_between_two_rows_when_a_transaction_is_old(
    make: MakePipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sent: three rows in one piece, while any transaction counts as old.

    Expected: a transaction for each, which takes an offset of its own in the log.
    """
    pipeline = make()
    pipeline.send(event("a", 1))
    pipeline.drain()
    name = pipeline.topic.location
    before = end_offsets(pipeline.bootstrap_servers, name)[0]
    monkeypatch.setattr(transactions, "COMMIT_EVERY_S", 0)

    held = positions.all_held(pipeline.topic)[0]
    sender = new_sender(pipeline.topic, held, end=4)

    assert sender.send(iter([rows_to(pipeline.topic, 4)])) == (3, {})
    assert end_offsets(pipeline.bootstrap_servers, name)[0] == before + 2 * 3
    assert len(read_topic(pipeline.bootstrap_servers, name)) == 4
    assert positions.all_held(pipeline.topic)[0].offset == 4


@contextmanager
def left_open(topic: Topic) -> Iterator[None]:
    """A transaction moves the position of partition 0 on; 2 s later it is rolled back."""
    client = kafka.client_options(topic.settings.kafka.bootstrap_servers)
    producer = Producer(client | {"transactional.id": uuid.uuid4().hex})
    producer.init_transactions(30)
    producer.begin_transaction()
    group = Consumer(client | {"group.id": positions.group(topic)}).consumer_group_metadata()
    moved = positions.all_held(topic)[0]._replace(offset=99)
    producer.send_offsets_to_transaction([positions.to_commit(topic.name, 0, moved)], group, 30)
    ends = threading.Timer(2, producer.abort_transaction, [30])
    ends.start()
    yield
    ends.join()


def new_sender(topic: Topic, held: Position, end: int) -> Any:
    """What sends the rows of partition 0 in a task, after those that are *held*."""
    work = Work(
        client=kafka.client_options(topic.settings.kafka.bootstrap_servers),
        transactional_id=uuid.uuid4().hex,
        group=positions.group(topic),
        source=topic.name,
        partition=0,
        end=end,
        pipeline=held.pipeline,
        batch=held.batch,
        schema=held.schema,
        limit_bytes=1_000_000,
    )
    return transactions._Sender(work, lambda error, topic: None)


def rows_to(topic: Topic, count: int) -> pa.RecordBatch:
    """The *output records* (``sink.py``) of the first offsets of partition 0."""
    rows: dict[str, list[Any]] = {
        "_partition": [0] * count,
        "_offset": list(range(count)),
        "_timestamp": [0] * count,
        "topic": [topic.location] * count,
        "partition": [0] * count,
        "key": [None] * count,
        "value": [b"{}"] * count,
        "headers": [None] * count,
        "refused": [None] * count,
    }
    return pa.RecordBatch.from_pydict(rows)


def signal_session(session: int, number: signal.Signals) -> None:
    """To all processes of a session: Spark's workers have left the job's process group."""
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            if entry.read_text().rpartition(")")[2].split()[3] == str(session):
                os.kill(int(entry.parent.name), number)
