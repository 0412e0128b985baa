"""What brokers may do to a batch that is being sent: exactly-once."""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

import pytest

from orders_pipeline import positions, table
from orders_pipeline.errors import BatchError, NoAnswerError

from tests.integration.test_process import Job
from tests.support.broker import Broker, start_broker, wait_until_broker_answers
from tests.support.pipeline import MakePipeline, event
from tests.support.refusing import is_silent, without_group, without_permission, without_replicas
from tests.support.topics import create_topic, end_offsets, read_topic, wait_until


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """A broker for this module alone, since it is killed."""
    with pytest.MonkeyPatch.context() as patch:
        if ":" in os.environ.get("KAFKA_BROKER", ""):
            patch.delenv("KAFKA_BROKER")  # which names one that serves others too
        with start_broker() as running:
            yield running


def test_broker_is_killed_while_a_batch_is_sent_and_comes_back(
    make: MakePipeline, broker: Broker, tmp_path: Path
) -> None:
    """Killed: the broker, once rows of a batch are in each partition; then it is there again.
    Expected: whether the job lives on or has to be started again, each row is there once.
    """
    count = 100_000
    pipeline = make()
    pipeline.send(*(event(f"k{n}", n, partition=n % 2) for n in range(count)))
    job = Job(pipeline, tmp_path, trigger="availableNow")
    servers, name = pipeline.bootstrap_servers, pipeline.topic.location

    def is_being_sent() -> bool:
        return table.exists(pipeline.spark, pipeline.topic) and all(
            end > 0 for end in end_offsets(servers, name).values()
        )

    try:
        wait_until(is_being_sent, 120, "the job has sent rows to each partition")
        broker.restart()
        assert "balance {" not in job.log.read_text()
        wait_until_broker_answers(broker, 90)
        assert job.exit_code() in (0, 1), job.log.read_text()[-3000:]
    finally:
        job.end()
    pipeline.drain()

    held = read_topic(servers, name)
    sources = {(each.headers["ingest.partition"], each.headers["ingest.offset"]) for each in held}
    assert len(held) == len(sources) == count


def test_batch_waits_for_a_broker_that_is_silent(make: MakePipeline, broker: Broker) -> None:
    """The broker answers nobody for 8 s, once rows of a batch are in each partition.

    Expected: the batch goes on by itself, and each row is there once.
    """
    count = 100_000
    pipeline = make()
    servers, name = pipeline.bootstrap_servers, pipeline.topic.location
    create_topic(servers, name)
    pipeline.send(*(event(f"k{n}", n, partition=n % 2) for n in range(count)))

    def is_being_sent() -> bool:
        return all(end > 0 for end in end_offsets(servers, name).values())

    with ThreadPoolExecutor() as pool:
        drained = pool.submit(pipeline.drain)
        wait_until(is_being_sent, 60, "rows are in each partition")
        is_silent(broker, 8)
        assert not pipeline.balances
        drained.result()

    held = read_topic(servers, name)
    sources = {(each.headers["ingest.partition"], each.headers["ingest.offset"]) for each in held}
    assert len(held) == len(sources) == count
    assert [balance.written for balance in pipeline.balances] == [count]


class Refusing(Protocol):
    """Makes a topic that takes no records inside the block."""

    def __call__(self, broker: Broker, topic: str) -> AbstractContextManager[None]: ...


@pytest.mark.parametrize(
    ("refusing", "cause"),
    [(without_permission, "[Aa]uthoriz"), (without_replicas, "timed out")],
)
def test_rows_wait_while_the_output_topic_takes_none(
    make: MakePipeline, broker: Broker, refusing: Refusing, cause: str
) -> None:
    """Sent: a record in each of two partitions, while the output topic takes no rows.

    Expected: a stop that names it and says why; no row, no balance, no dead letter. Once it takes
    them, each is there once.
    """
    pipeline = make()
    servers, name = pipeline.bootstrap_servers, pipeline.topic.location
    create_topic(servers, pipeline.topic.dead_letters)
    pipeline.send(event("a", 1), event("b", 2, partition=1))

    with refusing(broker, name):
        with pytest.raises(BatchError, match=rf"could not (all )?be sent to {name}: .*{cause}"):
            pipeline.drain()
        assert set(end_offsets(servers, name).values()) == {0}

    assert (pipeline.balances, pipeline.letters()) == ([], [])
    pipeline.drain()
    assert [row.id for row in pipeline.rows()] == ["a", "b"]
    assert [balance.written for balance in pipeline.balances] == [2]


def test_start_ends_in_words_when_the_group_of_the_output_topic_may_not_be_read(
    make: MakePipeline, broker: Broker
) -> None:
    """Sent: a record. Expected: the group and why it is not told of; allowed, the record."""
    pipeline = make()
    pipeline.send(event("a", 1))
    group = positions.group(pipeline.topic)

    with (
        without_group(broker, group),
        pytest.raises(NoAnswerError, match=rf"authorization failed.*read the group {group}"),
    ):
        pipeline.drain()

    pipeline.drain()
    assert [row.id for row in pipeline.rows()] == ["a"]
