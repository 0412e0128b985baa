"""What a crash does, in each gap between the effects of a batch: exactly-once.

Each test crashes one batch after another, starts again after each crash, and counts.
"""

import uuid
from types import ModuleType
from typing import Any

import pytest

from orders_pipeline import (
    batch_folders,
    dead_letters,
    delivery,
    kafka,
    sink,
)
from orders_pipeline.errors import BatchError

from tests.support.pipeline import MakePipeline, Pipeline, bad, encoded, event


class Crash(Exception):
    """Ends a batch where a process might have died."""


def die(*arguments: Any) -> None:
    raise Crash


GAPS: dict[str, tuple[ModuleType, str]] = {
    "before the write": (sink, "write"),
    "between the batch's files and their move": (batch_folders, "move"),
    "between their move and the label": (batch_folders, "write_label"),
    "between write and dead letters": (dead_letters, "send"),
    "between dead letters and commit": (kafka, "publish_progress"),
}
"""What comes next in each gap: to die there instead is to crash in that gap."""


def crash(pipeline: Pipeline, gap: str) -> None:
    """Runs the next batch into a crash."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(*GAPS[gap], die)
        with pytest.raises(BatchError, match="Crash"):
            pipeline.drain()


def send_batch(pipeline: Pipeline, name: str) -> None:
    """One batch: two good records in two partitions, two bad ones, and a null value.

    Of the bad ones, one is cut off and one bears the id of a schema.
    """
    key, value, *rest = encoded(pipeline.topic, event(f"{name}framed", 1))
    pipeline.send(
        event(f"{name}1", 1),
        event(f"{name}2", 2, partition=1),
        bad(name),
        (key, b"\0\0\0\0\1" + value, *rest),
        (f"{name}3".encode(), None, [], 0),
    )


RECORDS = 5
"""In a batch."""


def reasons(pipeline: Pipeline) -> list[tuple[bytes | None, bytes | None]]:
    """The dead letters: key and reason of each."""
    name = "__connect.errors.exception.class.name"
    return [(letter.key, letter.headers[name]) for letter in pipeline.letters()]


def run_into_each_gap(pipeline: Pipeline) -> None:
    """A batch that crashes in one gap after another, each time a replay; then one that does not."""
    send_batch(pipeline, "crashed-")
    for gap in GAPS:
        crash(pipeline, gap)
    send_batch(pipeline, "whole-")
    pipeline.drain()


NAMES = ["crashed-", "whole-"]
ALL = sorted(f"{name}{number}" for name in NAMES for number in (1, 2))
BAD = {
    *((name.encode(), b"undecodable") for name in NAMES),
    *(((name + "framed").encode(), b"framed") for name in NAMES),
}


def test_every_record_counts_once_when_a_crash_hits_any_gap(make: MakePipeline) -> None:
    """Expected: each good record is one row, each bad one at least one dead letter."""
    pipeline = make()
    run_into_each_gap(pipeline)

    assert sorted(row.id for row in pipeline.rows()) == ALL
    assert {*reasons(pipeline)} == BAD
    assert all(balance.holds for balance in pipeline.balances)


def test_rows_repeat_when_a_batch_has_a_new_folder_each_time(
    make: MakePipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control: the same crashes without what makes it exactly-once must repeat rows."""
    pipeline = make()

    def put_anew(*arguments: Any, **named: Any) -> None:
        batch_folders.put(*arguments, **{**named, "name": f"backfill.{uuid.uuid4()}"})

    monkeypatch.setattr(sink, "put", put_anew)
    monkeypatch.setattr(delivery, "check_follows", lambda *ignored: None)
    run_into_each_gap(pipeline)

    ids = [row.id for row in pipeline.rows()]
    assert sorted(set(ids)) == ALL
    assert [ids.count(f"{name}1") for name in NAMES] == [4, 1]
