"""The writers of a table take turns: in S3 nothing else keeps two from writing the same version.

Delta's log is safe there among the threads of one process (S3SingleDriverLogStore), and the stream,
``backfill`` and ``compact`` are processes of their own. So each holds ``<table>~lock`` while it
commits: an object that S3 writes only where it is as it was seen. The holder writes it anew every
few seconds; one that stays the same for ``LEASE_S`` is of a process that died. No clocks are
compared.
"""

import json
import logging
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from .errors import RefusedError
from .settings import Topic
from .storage import Folder

FILE = "holder.json"
LEASE_S = 30.0
POLL_S = 0.3
log = logging.getLogger(__name__)


@contextmanager
def locked(spark: SparkSession, topic: Topic) -> Iterator[None]:
    """Holds the table's lock; waits for it as long as another holds it and lives.

    Raises:
        RefusedError: another took it meanwhile, since this process slept for longer than a lease.
    """
    folder, writer = Folder(spark, f"{topic.location}~lock"), str(uuid.uuid4())
    held = _Held(folder, writer, _acquire(folder, writer, topic))
    try:
        yield
    finally:
        held.give_back()
    if held.tag is None:
        raise RefusedError(
            f"This process slept for more than {LEASE_S:.0f} s while it wrote to {topic.location}, "
            "and another took its turn. What it wrote last may be in the table or not. Start "
            "again, which looks; then see that every version is in the table's history."
        )


class _Held:
    """The lock, held, until it is given back."""

    def __init__(self, folder: Folder, writer: str, tag: str) -> None:
        self._folder = folder
        self._writer = writer
        self.tag: str | None = tag
        self._is_done = threading.Event()
        self._thread = threading.Thread(target=self._renew, daemon=True)
        self._thread.start()

    def _renew(self) -> None:
        while self.tag and not self._is_done.wait(LEASE_S / 4):
            try:
                self.tag = _hold(self._folder, self._writer, self.tag)
            except Exception as error:  # S3 did not answer; the lease has room for another try
                log.warning("the lock %s was not renewed: %s", self._folder.location, error)

    def give_back(self) -> None:
        self._is_done.set()
        self._thread.join()
        # What comes of it is not looked at: the next writer may have it within a moment.
        while self.tag and not self._folder.claim(FILE, _note("free", self._writer), self.tag):
            self.tag = _own_tag(self._folder, self._writer)


def _acquire(folder: Folder, writer: str, topic: Topic) -> str:
    """Waits until the lock is free, or its holder is dead; the tag of the lock, held."""
    seen, since, told = None, time.monotonic(), False
    while True:
        tag, text = folder.tag(FILE), folder.read(FILE)
        if tag != seen:
            seen, since = tag, time.monotonic()
        is_free = text is None or json.loads(text)["state"] == "free"
        is_dead = time.monotonic() - since > LEASE_S
        if is_free or is_dead:
            mine = _hold(folder, writer, tag)
            if mine:
                if not is_free:
                    log.warning("a process died while it wrote to %s", topic.location)
                return mine
        elif not told:
            told = True
            log.info("waiting while another process writes to %s", topic.location)
        time.sleep(POLL_S)


def _hold(folder: Folder, writer: str, tag: str | None) -> str | None:
    """Takes the lock in place of what has the tag; its new tag, None if it is another's."""
    folder.claim(FILE, _note("held", writer), tag)
    return _own_tag(folder, writer)


def _own_tag(folder: Folder, writer: str) -> str | None:
    """The tag of the lock if *writer* has it: what is there decides, not what S3 answered."""
    tag, text = folder.tag(FILE), folder.read(FILE)
    return tag if text and json.loads(text).get("writer") == writer else None


def _note(state: str, writer: str) -> str:
    """What the lock says; no two are the same."""
    return json.dumps({"state": state, "writer": writer, "id": str(uuid.uuid4())})
