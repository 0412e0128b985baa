"""The table's own disk, a small tmpfs: full in the middle of a batch, then no longer writable.

Mounting one takes root, which CI has; elsewhere these tests say that they were not run.
"""

import json
import os
import random
import subprocess
import threading
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from running import Repository, end_session, render_to_run

RECORDS = 300
VALUE_BYTES = 10_000
"""Of random letters, which hardly compress: together 3 MB."""
SMALL, LARGE = "size=2m", "size=64m"
DDL = "id STRING NOT NULL, note STRING"
SINKS = {"delta": "disk-delta", "parquet": "disk-parquet"}


class Pipeline(NamedTuple):
    """A pipeline whose tables are on a disk of their own, and its records sent."""

    topic: str
    disk: Path
    run: Callable[[], None]
    ids: Callable[[], list[str]]
    errors: Any
    sink: Any


@pytest.fixture(scope="module")
def repositories(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Repository]:
    folder = tmp_path_factory.mktemp("disk")
    return {sink: render_to_run(folder, SINKS[sink], sink=sink) for sink in reversed(SINKS)}


@pytest.fixture(scope="module")
def spark(repositories: dict[str, Repository]) -> Iterator[Any]:
    # Delta's jars hold all that Parquet needs.
    session = repositories["delta"].module("spark").start_session("disk", master="local[2]")
    yield session
    end_session(session)


@pytest.fixture(scope="module")
def broker(repositories: dict[str, Repository]) -> Iterator[str]:
    with repositories["delta"].support("broker").start_broker() as running:
        yield running.bootstrap_servers


@pytest.fixture(params=SINKS)
def pipeline(
    request: pytest.FixtureRequest,
    repositories: dict[str, Repository],
    spark: Any,
    broker: str,
    tmp_path: Path,
) -> Iterator[Pipeline]:
    if os.geteuid() != 0:
        assert not os.environ.get("CI"), "not root in CI"
        pytest.skip("not run: a disk of its own can only be mounted by root")
    repository, topic = repositories[request.param], f"disk-{uuid.uuid4().hex[:8]}"
    disk = tmp_path / "disk"
    disk.mkdir()
    topics, letters = repository.support("topics"), random.Random(1)
    topics.create_topic(broker, topic, 1)
    values = (
        {"id": str(n), "note": "".join(letters.choices("0123456789abcdef", k=VALUE_BYTES))}
        for n in range(RECORDS)
    )
    topics.produce(broker, topic, ((b"k", json.dumps(each).encode()) for each in values))
    table = {"location": str(disk / "tables")}
    settings = repository.settings(tmp_path, broker, topic, DDL, table=table)

    def run() -> None:
        repository.module("streams").run(spark, settings, threading.Event(), rebind=[])

    def ids() -> list[str]:
        rows = repository.module("table").read(spark, settings.topic_settings(topic))
        return sorted((row.id for row in rows.select("id").collect()), key=int)

    subprocess.run(["mount", "-t", "tmpfs", "-o", SMALL, "tmpfs", str(disk)], check=True)
    try:
        yield Pipeline(topic, disk, run, ids, *map(repository.module, ("errors", "sink")))
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=True)


def remount(disk: Path, option: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{option}", str(disk)], check=True)


def test_full_disk_stops_the_stream_and_loses_nothing(pipeline: Pipeline) -> None:
    """Written: 3 MB to a disk of 2 MB. Expected: an error, no row; once it is larger, all, once."""
    with pytest.raises(pipeline.errors.BatchError, match="No space left"):
        pipeline.run()
    assert pipeline.ids() == []

    remount(pipeline.disk, LARGE)
    pipeline.run()

    assert pipeline.ids() == [str(n) for n in range(RECORDS)]


def test_disk_that_cannot_be_written_stops_the_stream_and_loses_nothing(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Read-only before the start, then from the first write on. Expected: errors; at last, all."""
    remount(pipeline.disk, LARGE)
    remount(pipeline.disk, "ro")
    with pytest.raises(pipeline.errors.StorageError, match="No batch was begun"):
        pipeline.run()
    remount(pipeline.disk, "rw")

    def write_to_nothing(*arguments: Any) -> Any:
        remount(pipeline.disk, "ro")
        return write(*arguments)

    write = pipeline.sink.write
    with monkeypatch.context() as patch:
        patch.setattr(pipeline.sink, "write", write_to_nothing)
        with pytest.raises(pipeline.errors.BatchError, match=pipeline.topic):
            pipeline.run()
    remount(pipeline.disk, "rw")
    assert pipeline.ids() == []

    pipeline.run()

    assert pipeline.ids() == [str(n) for n in range(RECORDS)]
