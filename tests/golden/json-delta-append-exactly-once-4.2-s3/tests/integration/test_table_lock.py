"""The writers of a table in S3: they take turns, and one that dies gives way."""

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from orders_pipeline import table_lock
from orders_pipeline.errors import RefusedError
from orders_pipeline.storage import Folder
from orders_pipeline.table_lock import FILE, locked

from tests.support.pipeline import MakePipeline, Pipeline

LEASE_S = 3.0


@pytest.fixture
def pipeline(make: MakePipeline, monkeypatch: pytest.MonkeyPatch) -> Pipeline:
    monkeypatch.setattr(table_lock, "LEASE_S", LEASE_S)
    monkeypatch.setattr(table_lock, "POLL_S", 0.05)
    return make()


def lock_of(pipeline: Pipeline) -> Folder:
    return Folder(pipeline.spark, f"{pipeline.topic.location}~lock")


def test_two_that_make_an_object_at_once_both_succeed_but_for_claim(pipeline: Pipeline) -> None:
    """The control: what Delta relies on, to create without overwriting, keeps nobody out of S3."""
    folder = lock_of(pipeline)
    path = folder._path("plain")
    streams = [folder._files.create(path, False) for _ in range(2)]
    for number, stream in enumerate(streams):
        stream.write(bytearray(str(number).encode()))
        stream.close()
    assert folder.read("plain") == "1"

    assert folder.claim("claimed", "first", None)
    assert not folder.claim("claimed", "second", None)
    assert not folder.claim("claimed", "third", "another tag")
    assert folder.read("claimed") == "first"
    assert folder.claim("claimed", "fourth", folder.tag("claimed"))
    assert folder.read("claimed") == "fourth"


@pytest.mark.parametrize(("writers", "turns", "held_s"), [(2, 1, LEASE_S * 1.5), (3, 20, 0)])
def test_writers_take_turns_for_as_long_as_each_needs(
    writers: int, turns: int, held_s: float, pipeline: Pipeline
) -> None:
    """Turns that are longer than a lease, and short ones whose next writer has it within a moment.

    Expected: no two at once, and none is told that it lost its turn.
    """
    inside: list[int] = []
    overlaps: list[int] = []

    def write(writer: int) -> None:
        for _ in range(turns):
            with locked(pipeline.spark, pipeline.topic):
                overlaps.extend(inside)
                inside.append(writer)
                time.sleep(held_s)
                inside.remove(writer)

    with ThreadPoolExecutor(writers) as pool:
        list(pool.map(write, range(writers)))
    assert overlaps == []


def test_lock_of_a_dead_writer_is_taken_over(
    pipeline: Pipeline, caplog: pytest.LogCaptureFixture
) -> None:
    assert lock_of(pipeline).claim(FILE, table_lock._note("held", "of the dead"), None)
    started = time.monotonic()
    with locked(pipeline.spark, pipeline.topic):
        waited_s = time.monotonic() - started
    assert waited_s > LEASE_S
    assert "a process died while it wrote" in caplog.text


def test_writer_that_slept_through_its_lease_says_so(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another takes over while the first is asleep. Expected: a refusal once that one wakes."""
    first = table_lock._Held._renew
    monkeypatch.setattr(table_lock._Held, "_renew", lambda held: None)
    with (  # noqa: PT012
        pytest.raises(RefusedError, match="another took its turn"),
        locked(pipeline.spark, pipeline.topic),
    ):
        monkeypatch.setattr(table_lock._Held, "_renew", first)
        with locked(pipeline.spark, pipeline.topic):
            pass


def test_renewal_whose_answer_was_lost_is_no_takeover(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """S3 writes the first renewal and is not heard. Expected: the next goes by what is there."""
    claim = Folder.claim
    is_unheard = iter([False, True])

    def claim_unheard(*arguments: Any) -> bool:
        done = claim(*arguments)
        if next(is_unheard, False):
            raise TimeoutError
        return done

    monkeypatch.setattr(Folder, "claim", claim_unheard)
    with locked(pipeline.spark, pipeline.topic):
        time.sleep(LEASE_S * 0.6)
    assert "was not renewed" in caplog.text


def test_lock_is_given_back_when_the_write_fails(pipeline: Pipeline) -> None:
    def fail() -> Any:
        raise ValueError

    for _ in range(2):
        started = time.monotonic()
        with pytest.raises(ValueError), locked(pipeline.spark, pipeline.topic):  # noqa: PT011
            fail()
        assert time.monotonic() - started < LEASE_S
