"""What a crash does, in each gap between the effects of a batch: at-most-once.

Each test crashes one batch after another, starts again after each crash, and counts.
"""

import json
import re
from types import ModuleType
from typing import Any

import pytest
from pyspark.sql import DataFrame

from orders_pipeline import backfill, dead_letters, kafka, sink
from orders_pipeline.batch import Batch, Written, offsets_from_json
from orders_pipeline.errors import BatchError
from orders_pipeline.settings import Topic

from tests.support.pipeline import MakePipeline, Pipeline, bad, encoded, event
from tests.support.records import encode


class Crash(Exception):
    """Ends a batch where a process might have died."""


def die(*arguments: Any) -> None:
    raise Crash


GAPS: dict[str, tuple[ModuleType, str]] = {
    "before the write": (sink, "write"),
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
    """One batch: two good records in two partitions, two bad ones, and a row that is deleted.

    The second good one is of a newer version of the schema; of the bad ones, one is cut off and one
    bears no schema's id.
    """
    second = {"id": f"{name}2", "amount": 2}
    key, value, *rest = encoded(pipeline.topic, event(f"{name}bare", 1))
    pipeline.send(
        event(f"{name}1", 1),
        (b"2", encode(pipeline.topic, second, version=2), [], 1),
        bad(name),
        (key, value[5:], *rest),
        event(f"{name}3", 3),
        (f"{name}3".encode(), None, [], 0),
    )


RECORDS = 6
"""In a batch."""


def reasons(pipeline: Pipeline) -> list[tuple[bytes | None, bytes | None]]:
    """The dead letters: key and reason of each."""
    name = "__connect.errors.exception.class.name"
    return [(letter.key, letter.headers[name]) for letter in pipeline.letters()]


def run_into_each_gap(pipeline: Pipeline) -> None:
    """A batch for each gap, which crashes there; then one that does not."""
    for number, gap in enumerate(GAPS):
        send_batch(pipeline, f"crashed-{number}-")
        crash(pipeline, gap)
    send_batch(pipeline, "whole-")
    pipeline.drain()


NAMES = [*(f"crashed-{number}-" for number in range(len(GAPS))), "whole-"]
ALL = sorted(f"{name}{number}" for name in NAMES for number in (1, 2))
BAD = {
    *((name.encode(), b"undecodable") for name in NAMES),
    *(((name + "bare").encode(), b"not_framed") for name in NAMES),
}


def test_no_record_repeats_when_a_crash_hits_any_gap(
    make: MakePipeline, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Expected: one write a batch, one row at most a record, one dead letter at most a bad one.

    The guarantee's other side: a batch that crashed before it was written is given up, counted,
    and comes back by the command in the log.
    """
    pipeline = make()
    written: list[int] = []
    write = sink.write

    def note_and_write(rows: DataFrame, batch: Batch, topic: Topic) -> Written:
        written.append(batch.id)
        return write(rows, batch, topic)

    monkeypatch.setattr(sink, "write", note_and_write)
    run_into_each_gap(pipeline)

    assert len(written) == len(set(written))
    ids = sorted(row.id for row in pipeline.rows())
    unwritten = list(GAPS).index("between write and dead letters")
    assert ids == [key for key in ALL if not key.startswith(tuple(NAMES[:unwritten]))]
    found = reasons(pipeline)
    assert len(found) == len(set(found))
    sent = tuple(name.encode() for name in NAMES[unwritten + 1 :])
    assert set(found) == {each for each in BAD if each[0].startswith(sent)}
    given_up = [balance.skipped for balance in pipeline.balances if balance.written == 0]
    assert given_up == [RECORDS] * len(GAPS)

    said = "\n".join(caplog.messages)  # its text is JSON once PySpark's logger had the handler
    named = re.findall(r"backfill \S+ --from-offsets '(.+)' --to-offsets '(.+)'", said)
    assert len(named) == len(GAPS)
    for start, end in named[:unwritten]:  # the others lack dead letters alone
        offsets = [offsets_from_json(json.loads(text)) for text in (start, end)]
        backfill.backfill(pipeline.spark, pipeline.topic, *offsets)
    assert sorted(row.id for row in pipeline.rows()) == ALL
