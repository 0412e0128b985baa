"""A story for a rendered repository, of which it becomes a test: the disk of PostgreSQL's log is
full, which may end the server. The disk is a small tmpfs, which takes root to mount.
"""

import os
import random
import secrets
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from testcontainers.core.container import DockerContainer
from tests.support.broker import free_port
from tests.support.database import IMAGE, Database, start_database
from tests.support.pipeline import MakePipeline, Pipeline, bad, event
from variant import errors
from variant.database import PASSWORD

RECORDS = 120
NOTE_BYTES = 50_000
"""Of random letters, which hardly compress: together 6 MB."""
IDS = [f"{n:03}" for n in range(RECORDS)]


class Server:
    """A server whose log has a disk of its own, in segments of 1 MB."""

    def __init__(self, disk: Path) -> None:
        self._ballast = disk / "ballast"
        password, port = secrets.token_hex(16), free_port()
        self._container = (
            DockerContainer(os.environ.get("POSTGRES_IMAGE") or IMAGE)
            .with_bind_ports(5432, port)
            .with_volume_mapping(str(disk), "/log", "rw")
            .with_env("POSTGRES_PASSWORD", password)
            .with_env("POSTGRES_INITDB_ARGS", "--waldir /log/wal --wal-segsize 1")
        )
        self._container.start()
        self.url = f"postgresql://postgres:{password}@127.0.0.1:{port}/postgres"

    def fill_disk(self) -> None:
        """Leaves no room on the disk but for 1 MB."""
        disk = os.statvfs(self._ballast.parent)
        self._ballast.write_bytes(bytes(disk.f_bavail * disk.f_frsize - 2**20))

    def log(self) -> str:
        return str(self._container.get_wrapped_container().logs().decode())

    def make_room_and_restart(self) -> None:
        """Whether it has ended or not, it is killed."""
        self._ballast.unlink()
        self._container.get_wrapped_container().restart(timeout=0)

    def remove(self) -> None:
        self._container.stop()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    disk = tmp_path / "disk"
    disk.mkdir()
    options = "size=64m,mode=777"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(disk)], check=True)
    running = Server(disk)
    yield running
    running.remove()
    subprocess.run(["umount", "--lazy", str(disk)], check=True)


@pytest.fixture
def database(server: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Database]:
    monkeypatch.setenv("DATABASE_URL", server.url)
    monkeypatch.setenv(PASSWORD, "")  # set anew by what follows, and after the test as it was
    with start_database() as answering:
        yield answering


def ids(pipeline: Pipeline) -> list[str]:
    return [row.id for row in pipeline.rows()]


def test_full_log_stops_the_stream_and_loses_nothing(
    make: MakePipeline, server: Server, database: Database
) -> None:
    """Sent: 6 MB, with room for less in the log.

    Expected: an error. Once the server has recovered, with room: nothing of the batch, no dead
    letter but one of before; then each row once.
    """
    pipeline, letters = make(), random.Random(1)
    pipeline.send(bad("bad"), event("first", 1))
    pipeline.drain()
    notes = [letters.randbytes(NOTE_BYTES // 2).hex() for _ in IDS]
    pipeline.send(*(event(key, 1, note=note) for key, note in zip(IDS, notes, strict=True)))
    server.fill_disk()

    with pytest.raises(errors.BatchError, match=r"[Nn]othing of (the batch|it)"):
        pipeline.drain()

    assert 'could not write to file "pg_wal/' in server.log()
    server.make_room_and_restart()
    with start_database():
        assert ids(pipeline) == ["first"]
    pipeline.drain()
    assert ids(pipeline) == ["first", *IDS]
    assert [letter.key for letter in pipeline.letters()] == [b"bad"]
