"""A real PostgreSQL for tests and the demo, in a container.

The environment may choose:
    DATABASE_URL    a server that runs already: postgresql://user:password@host:port/name
    POSTGRES_IMAGE  the container's image, the public ``postgres`` unless set.
"""

import os
import secrets
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg
from docker.errors import DockerException, NotFound  # type: ignore[import-untyped, unused-ignore]
from psycopg.conninfo import conninfo_to_dict
from testcontainers.core.container import DockerContainer

from orders_pipeline.database import PASSWORD

from .kafka_jvm import say

IMAGE = "postgres:15"


class DatabaseUnavailableError(RuntimeError):
    """No database could be started or reached; the message says what happened."""


@dataclass(frozen=True)
class Database:
    """A database that answers; ``url`` holds its password."""

    url: str

    @property
    def settings(self) -> dict[str, Any]:
        """What the pipeline's section ``database`` says of it."""
        parts = conninfo_to_dict(self.url)
        return {
            "host": parts["host"],
            "port": int(parts["port"] or 5432),
            "name": parts["dbname"],
            "user": parts["user"],
            "ssl_mode": "disable",
        }


@contextmanager
def start_database(timeout_s: float = 60) -> Iterator[Database]:
    """A running database, stopped at the end of the block if it was started here.

    The variable that holds the pipeline's password is set for it.

    Raises:
        DatabaseUnavailableError: if there is none within ``timeout_s``; never a skipped test.
    """
    if url := os.environ.get("DATABASE_URL"):
        database = _made(url)
        _wait_until_it_answers(database, time.monotonic() + timeout_s)
        yield database
        return
    with start_container(secrets.token_hex(16), timeout_s) as database:
        yield database


@contextmanager
def start_container(
    password: str, timeout_s: float = 60, disks: Mapping[str, str] | None = None
) -> Iterator[Database]:
    """A running database in a container of its own, stopped at the end of the block.

    Of ``disks``, each folder in the container is a disk of that size: ``{"/small": "16m"}``.
    Otherwise as ``start_database``.
    """
    image = os.environ.get("POSTGRES_IMAGE") or IMAGE
    container = DockerContainer(image).with_exposed_ports(5432)
    container.with_env("POSTGRES_PASSWORD", password)
    for folder, size in (disks or {}).items():
        container.with_tmpfs_mount(folder, f"size={size}")
    say(f"Starting PostgreSQL in a container of {image} ...")
    try:
        container.start()
    except DockerException as error:
        raise DatabaseUnavailableError(
            f"No container of {image} starts ({error}). Name an image that is here in "
            "POSTGRES_IMAGE, or a server that runs in DATABASE_URL."
        ) from error
    try:
        address = f"{container.get_container_host_ip()}:{container.get_exposed_port(5432)}"
        database = _made(f"postgresql://postgres:{password}@{address}/postgres")
        _wait_until_it_answers(database, time.monotonic() + timeout_s)
        yield database
    finally:
        try:
            container.stop()
        except NotFound:
            say("The database's container was removed by another.")


def _made(url: str) -> Database:
    os.environ[PASSWORD] = str(conninfo_to_dict(url).get("password", ""))
    return Database(url)


def _wait_until_it_answers(database: Database, deadline: float) -> None:
    problem = "no time was left"
    while time.monotonic() < deadline:
        try:
            psycopg.connect(database.url, connect_timeout=2).close()
            return
        except psycopg.OperationalError as error:
            problem = str(error)
        time.sleep(0.1)
    raise DatabaseUnavailableError(f"No database answered in time: {problem}")
