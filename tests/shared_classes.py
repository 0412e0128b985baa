"""Spark's classes, read and verified once for all JVMs: one that has them starts in half the time.

The archive is recorded by a JVM that ingests a few records, for the jars of this environment at
this place. A JVM that cannot use it, another Java's, another Spark's or a broker's, does without.
"""

import fcntl
import sys
import tempfile
from pathlib import Path

ARCHIVE = Path(sys.prefix) / "spark-classes.jsa"
COMPILER = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m -XX:+UseSerialGC"
"""A test's JVM lives too short for the second compiler to pay: without it a run takes half the
time. The first alone has room for 48 MB of code by default, which Spark fills, to compile it again.
"""
RECORDED_BY = ["tests/integration/test_crashes.py", "-k", "any_gap"]
"""A test of the repository's own that reads, writes and sends dead letters."""


def java_options(archive: str = f"-XX:SharedArchiveFile={ARCHIVE}") -> str:
    """``JDK_JAVA_OPTIONS`` for every JVM of the tests."""
    # What a JVM says of an archive goes to standard output, where Spark's launcher is read from.
    return f"{COMPILER} {archive} -Xlog:disable"


def record() -> None:
    """Makes the archive, unless it is there or another process makes it now."""
    with ARCHIVE.with_suffix(".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        if not ARCHIVE.exists():
            _record()


def _record() -> None:
    # They take the environment as they find it, and conftest.py has this module complete it first.
    from rendering import render
    from running import run_own_tests

    new = ARCHIVE.with_suffix(".new")
    # The JVM writes it at its end, after pytest's: uncaptured (-s) it holds the same stdout, and
    # only at the end of that is the run over.
    options = java_options(f"-XX:ArchiveClassesAtExit={new}")
    with tempfile.TemporaryDirectory() as folder:
        repository = render(Path(folder) / "recorded")
        run_own_tests(repository, "-s", *RECORDED_BY, JDK_JAVA_OPTIONS=options)
    new.rename(ARCHIVE)
