"""A story for a rendered repository, of which it becomes a test: its tables' own disk is full, then
no longer writable. The disk is a small tmpfs, which takes root to mount.
"""

import random
import string
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.pipeline import MakePipeline, Pipeline, event
from variant import errors, sink

RECORDS = 400
NOTE_BYTES = 10_000
"""Of random letters, which compress by a quarter at most: together 3 MB."""
SMALL, LARGE = "size=2m", "size=64m"
IDS = [f"{n:03}" for n in range(RECORDS)]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", SMALL, "tmpfs", str(disk)], check=True)
    yield disk
    subprocess.run(["umount", "--lazy", str(disk)], check=True)


@pytest.fixture
def pipeline(make: MakePipeline, disk: Path) -> Pipeline:
    pipeline, letters = make(table={"location": str(disk / "tables")}), random.Random(1)
    notes = ("".join(letters.choices(string.ascii_letters, k=NOTE_BYTES)) for _ in IDS)
    pipeline.send(*(event(key, 1, note=note) for key, note in zip(IDS, notes, strict=True)))
    return pipeline


def remount(disk: Path, option: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{option}", str(disk)], check=True)


def ids(pipeline: Pipeline) -> list[str]:
    return sorted(row.id for row in pipeline.rows())


def test_full_disk_stops_the_stream_and_loses_nothing(pipeline: Pipeline, disk: Path) -> None:
    """Written: 3 MB to a disk of 2 MB. Expected: an error, no row; once it is larger, all, once."""
    with pytest.raises(errors.BatchError, match="No space left"):
        pipeline.drain()
    assert ids(pipeline) == []

    remount(disk, LARGE)
    pipeline.drain()

    assert ids(pipeline) == IDS


def test_disk_that_cannot_be_written_stops_the_stream_and_loses_nothing(
    pipeline: Pipeline, disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Read-only before the start, then from the first write on. Expected: errors; at last, all."""
    remount(disk, LARGE)
    remount(disk, "ro")
    with pytest.raises(errors.StorageError, match="No batch was begun"):
        pipeline.drain()
    remount(disk, "rw")

    def write_to_nothing(*arguments: Any) -> Any:
        remount(disk, "ro")
        return write(*arguments)

    write = sink.write
    with monkeypatch.context() as patch:
        patch.setattr(sink, "write", write_to_nothing)
        with pytest.raises(errors.BatchError, match=pipeline.topic.name):
            pipeline.drain()
    remount(disk, "rw")
    assert ids(pipeline) == []

    pipeline.drain()

    assert ids(pipeline) == IDS
