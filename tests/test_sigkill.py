"""SIGKILL at random moments: for each guarantee, ten runs of the job.

The job is a process of its own, as its user runs it; the topic is written to all the while. One
run after another is killed. After the last kill it runs to the end once, and the table is
compared with the topic, record by record. What a kill may do is confined to the batch that was in
hand, planned and not committed: outside of those nothing may be lost or repeated under any
guarantee.

How often that batch was in the table already is up to chance, which is helped: some kills come when
its commit to the table has been seen. What then must be repeated or lost follows, and is compared:
that the weaker guarantees do repeat and do lose shows that these kills can break something.
``pytest -rP`` prints the counts.
"""

import json
import os
import random
import signal
import subprocess
import sys
import threading
import urllib.parse
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from running import Repository, render_to_run

pytestmark = pytest.mark.usefixtures("spark_classes")
SEEDS = range(10)
"""One for a kill."""
PARTITIONS = 2
BATCH = 300
"""Records in a batch at most: it takes about a second, most of it Spark's and Delta's own."""
TIMEOUT_S = 180

Coordinates = tuple[int, int]
"""Partition and offset."""


@dataclass
class Traffic:
    """Records sent to a topic for as long as the block lasts, one in twenty of them spoiled."""

    repository: Repository
    broker: str
    topic: str
    _ended: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def flowing(self) -> Iterator[None]:
        """Sends about 200 records a second in the background."""
        sender = threading.Thread(target=self._send)
        sender.start()
        try:
            yield
        finally:
            self._ended.set()
            sender.join()

    def _send(self) -> None:
        produce = self.repository.support("topics").produce
        number = 0
        while True:
            records: list[tuple[bytes, bytes, list[Any], int]] = [
                (b"key", value(each), [], each % PARTITIONS) for each in range(number, number + 100)
            ]
            produce(self.broker, self.topic, records)
            number += 100
            if self._ended.wait(0.5):
                return

    def sent(self) -> tuple[dict[Coordinates, int], set[Coordinates]]:
        """Where the good records are, with the number in each; and where the spoiled ones are."""
        good, spoiled = {}, set()
        for record in self.repository.support("topics").read_topic(self.broker, self.topic):
            where = (record.partition, record.offset)
            if is_spoiled(number := int(record.value[5:].strip(b"}"))):
                spoiled.add(where)
            else:
                good[where] = number
        return good, spoiled


def value(number: int) -> bytes:
    return b'{"n":%d' % number + (b"" if is_spoiled(number) else b"}")


def is_spoiled(number: int) -> bool:
    return number % 20 == 7


@dataclass
class Chain:
    """The runs of one job, one after another, and the batches that kills have cut."""

    repository: Repository
    broker: str
    topic: str
    folder: Path
    cut: dict[int, dict[int, range]] = field(default_factory=dict)
    """The offsets in each partition of every batch that was in hand when the job was killed."""
    written: set[int] = field(default_factory=set)
    """Those of them that were in the table already."""

    @property
    def checkpoint(self) -> Path:
        return self.folder / "checkpoints" / self.topic

    @property
    def table(self) -> Path:
        return self.folder / "tables" / self.topic

    def run_until_killed(self, seed: int) -> str:
        """Starts the job and kills it and all its children; returns what it was doing."""
        chance = random.Random(seed)
        moments = {"in a new batch": 5, "after a write": 4, "after its start": 2, "as it starts": 1}
        moment = chance.choices(list(moments), list(moments.values()))[0]
        nth, planned, commits = chance.randint(1, 2), self._newest("offsets"), len(self._labels())
        with self._job(f"killed-{seed}", "1 seconds", BATCH) as (job, log):
            if moment == "in a new batch":
                self._wait(job, log, lambda: self._newest("offsets") >= planned + nth)
                delay_s = chance.uniform(0, 2)
            elif moment == "after a write":
                self._wait(job, log, lambda: len(self._labels()) >= commits + nth)
                delay_s = chance.uniform(0, 0.5)
            elif moment == "after its start":
                self._wait(job, log, lambda: "ingesting" in log.read_text())
                delay_s = chance.uniform(0, 5)
            else:
                delay_s = chance.uniform(0, 7)
            try:
                job.wait(delay_s)
            except subprocess.TimeoutExpired:
                os.killpg(job.pid, signal.SIGKILL)
            assert job.wait() == -signal.SIGKILL, log.read_text()[-5000:]
        planned = self._newest("offsets")
        if planned == self._newest("commits"):
            return f"{moment}: between two batches"
        self.cut[planned] = self._offsets(planned)
        if planned not in self._labels():
            return f"{moment}: in batch {planned}, not yet in the table"
        self.written.add(planned)
        return f"{moment}: in batch {planned}, in the table already"

    def run_to_the_end(self) -> None:
        """Runs the job until it has read all that there is."""
        with self._job("last", "availableNow", 1_000_000) as (job, log):
            assert job.wait(TIMEOUT_S) == 0, log.read_text()[-5000:]

    def is_in(self, batches: Iterable[int], where: Coordinates) -> bool:
        """Whether a record belongs to one of these batches, of those that were cut."""
        partition, offset = where
        return any(offset in self.cut[batch].get(partition, ()) for batch in batches)

    def rows(self) -> Counter[tuple[Coordinates, int]]:
        """The table's rows, each as coordinates and number, read as Delta's protocol says.

        Without Spark: no second JVM, and a reader that shares nothing with the writer.
        """
        files: dict[str, None] = {}
        for action in self._actions():
            if "add" in action:
                assert not action["add"].get("deletionVector")
                files[action["add"]["path"]] = None
            elif "remove" in action:
                files.pop(action["remove"]["path"])
        found: Counter[tuple[Coordinates, int]] = Counter()
        for name in files:
            rows = pq.read_table(self.table / urllib.parse.unquote(name))
            columns = [rows.column(each).to_pylist() for each in ("_partition", "_offset", "n")]
            found.update(((p, o), n) for p, o, n in zip(*columns, strict=True))
        return found

    def letters(self) -> Counter[Coordinates]:
        """The dead letters, by the coordinates in their headers."""
        topics = self.repository.support("topics")
        names = ["__connect.errors.partition", "__connect.errors.offset"]
        return Counter(
            (int(letter.headers[names[0]]), int(letter.headers[names[1]]))
            for letter in topics.read_topic(self.broker, f"{self.topic}.DLT")
        )

    @contextmanager
    def _job(
        self, name: str, trigger: str, batch: int
    ) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
        kafka = {"max_offsets_per_trigger": batch}
        settings = self.repository.settings(
            self.folder, self.broker, self.topic, "n BIGINT NOT NULL", kafka=kafka, trigger=trigger
        )
        environment = self.repository.environment(settings)
        log = self.folder / f"{name}.log"
        job = subprocess.Popen(
            [sys.executable, "-m", "tests.support.job", "run"],
            cwd=self.repository.path,
            env={**environment, "SPARK_LOCAL_DIRS": str(self.folder)},
            stdout=subprocess.DEVNULL,
            stderr=log.open("w"),
            start_new_session=True,
        )
        try:
            yield job, log
        finally:
            if job.poll() is None:
                os.killpg(job.pid, signal.SIGKILL)
                job.wait()

    def _wait(self, job: subprocess.Popen[bytes], log: Path, condition: Any) -> None:
        def holds() -> bool:
            assert job.poll() is None, log.read_text()[-5000:]
            return bool(condition())

        what = f"the job goes on; its log: {log}"
        self.repository.support("topics").wait_until(holds, TIMEOUT_S, what)

    def _labels(self) -> list[int]:
        """The batches that the table's commits are labelled with, in order."""
        infos = (action.get("commitInfo", {}) for action in self._actions())
        labels = (json.loads(info.get("userMetadata", "{}")) for info in infos)
        return [label["batch"] for label in labels if label]

    def _actions(self) -> Iterator[dict[str, Any]]:
        for commit in sorted((self.table / "_delta_log").glob("*[0-9].json")):
            yield from map(json.loads, commit.read_text().splitlines())

    def _newest(self, folder: str) -> int:
        names = (path.name for path in (self.checkpoint / folder).glob("[0-9]*"))
        return max((int(name) for name in names if name.isdigit()), default=-1)

    def _offsets(self, batch: int) -> dict[int, range]:
        starts, ends = self._ends(batch - 1), self._ends(batch)
        return {int(p): range(starts.get(p, 0), end) for p, end in ends.items()}

    def _ends(self, batch: int) -> dict[str, int]:
        if batch < 0:
            return {}
        lines = (self.checkpoint / "offsets" / str(batch)).read_text().splitlines()
        ends: dict[str, int] = json.loads(lines[-1])[self.topic]
        return ends


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sigkill")


@pytest.mark.long
@pytest.mark.spread
@pytest.mark.parametrize("guarantee", ["exactly-once", "at-least-once", "at-most-once"])
def test_guarantee_holds_after_ten_kills(guarantee: str, folder: Path) -> None:
    """Sent: 200 records a second, one in twenty spoiled. Killed: the job, ten times.

    Expected: exactly-once counts each good record once; at-least-once loses none; at-most-once
    repeats none. Dead letters: under the first two every spoiled record at least once.
    """
    name = f"kill-{guarantee}"
    repository = render_to_run(folder, name, delivery_guarantee=guarantee)
    with repository.support("broker").start_broker() as running:
        broker, topic = running.bootstrap_servers, name
        repository.support("topics").create_topic(broker, topic, PARTITIONS)
        traffic = Traffic(repository, broker, topic)
        chain = Chain(repository, broker, topic, folder / f"{name}-chain")
        with traffic.flowing():
            for seed in SEEDS:
                print(f"{guarantee}, seed {seed}: killed {chain.run_until_killed(seed)}")
        chain.run_to_the_end()
        good, spoiled = traffic.sent()
        letters = chain.letters()

    rows = chain.rows()
    held = Counter(dict.fromkeys(good, 0))
    for (where, number), count in rows.items():
        assert good[where] == number  # nothing that was not sent, and under its own coordinates
        held[where] += count
    lost = {where for where, count in held.items() if count == 0}
    repeated = {where for where, count in held.items() if count > 1}
    lost_letters = spoiled - set(letters)
    repeated_letters = {where for where, count in letters.items() if count > 1}
    print(
        f"{guarantee}: {len(good)} good records, {len(lost)} lost, {len(repeated)} repeated; "
        f"{len(spoiled)} spoiled, {len(lost_letters)} letters lost, {len(repeated_letters)} "
        f"repeated; {len(chain.cut)} batches were cut, {len(chain.written)} of them when written"
    )

    assert len(chain.cut) >= len(SEEDS) // 4, "the kills did not meet enough batches"
    assert set(letters) <= spoiled
    for where in lost | repeated | lost_letters | repeated_letters:
        assert chain.is_in(chain.cut, where)
    if guarantee == "exactly-once":
        assert not lost | repeated | lost_letters
    elif guarantee == "at-least-once":
        assert not lost | lost_letters
        assert repeated == {where for where in good if chain.is_in(chain.written, where)}
    else:
        assert not repeated | repeated_letters
        assert not any(chain.is_in(chain.written, where) for where in lost)
