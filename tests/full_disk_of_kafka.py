"""A story for a rendered repository, of which it becomes a test: the disk of a Kafka broker is
full, which ends the broker. The disk is a small tmpfs, which takes root to mount.
"""

import os
import random
import string
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from docker.types import Mount
from testcontainers.core.docker_client import DockerClient
from tests.support import broker as brokers
from tests.support.broker import Broker, start_broker, wait_until_broker_answers
from tests.support.kafka_container import KafkaContainer
from tests.support.pipeline import MakePipeline, bad, event
from tests.support.topics import wait_until
from variant import errors

RECORDS = 400
NOTE_BYTES = 10_000
"""Of random letters, which compress by a quarter at most: together 3 MB."""
IDS = [f"{n:03}" for n in range(RECORDS)]


class Disk:
    """The broker's own: all that it keeps is there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._ballast = folder / "ballast"

    def fill(self) -> None:
        """Leaves no room but for 1 MB."""
        disk = os.statvfs(self.folder)
        self._ballast.write_bytes(bytes(disk.f_bavail * disk.f_frsize - 2**20))

    def make_room(self) -> None:
        self._ballast.unlink()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    folder = tmp_path / "disk"
    folder.mkdir()
    options = "size=256m,mode=777"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)], check=True)
    yield Disk(folder)
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.fixture
def broker(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> Iterator[Broker]:
    mount = Mount("/log", str(disk.folder), type="bind")
    with_disk = partial(KafkaContainer, mounts=[mount])
    monkeypatch.setattr(brokers, "KafkaContainer", with_disk)
    monkeypatch.setitem(brokers._SETTINGS, "log.dirs", "/log/kept")
    monkeypatch.setenv("KAFKA_BROKER", "container")
    with start_broker() as running:
        yield running


def test_broker_that_ends_on_a_full_disk_loses_nothing(
    make: MakePipeline, broker: Broker, disk: Disk
) -> None:
    """Sent: 3 MB, with room for less where the broker keeps the rows.

    Expected: the broker ends, and so does the stream, with an error. Started with room again: each
    row once, no dead letter but one of before.
    """
    pipeline, letters = make(), random.Random(1)
    pipeline.send(bad("bad"), event("first", 1))
    pipeline.drain()
    notes = ("".join(letters.choices(string.ascii_letters, k=NOTE_BYTES)) for _ in IDS)
    pipeline.send(*(event(key, 1, note=note) for key, note in zip(IDS, notes, strict=True)))
    disk.fill()

    with pytest.raises(errors.BatchError, match=pipeline.topic.name):
        pipeline.drain()

    wait_until(lambda: broker.failure() is not None, 60, "the broker has ended")
    disk.make_room()
    DockerClient().client.containers.get(broker.process.id).start()
    wait_until_broker_answers(broker, 90)
    pipeline.drain()
    assert [row.id for row in pipeline.rows()] == ["first", *IDS]
    assert [letter.key for letter in pipeline.letters()] == [b"bad"]
