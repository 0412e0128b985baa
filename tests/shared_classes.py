"""Spark's classes, read and verified once for all JVMs: one that has them starts in half the time.

The archive is recorded by a JVM that ingests a few records, for the jars of this environment at
this place. A JVM that cannot use it, another Java's, does without.
"""

import os
import sys
import tempfile
from functools import cache
from pathlib import Path

from rendering import render
from running import alone, run_own_tests

ARCHIVE = Path(sys.prefix) / "spark-classes.jsa"
RECORDED_BY = ["tests/integration/test_crashes.py", "-k", "any_gap"]
"""A test of the repository's own that reads, writes and sends dead letters."""


@cache
def jvm_options() -> str:
    """``JDK_JAVA_OPTIONS`` with the archive; recorded first, where there is none."""
    with alone(ARCHIVE.with_suffix(".lock")), tempfile.TemporaryDirectory() as folder:
        if not ARCHIVE.exists():
            _record(render(Path(folder) / "recorded"))
    return _options(f"-XX:SharedArchiveFile={ARCHIVE}")


def _record(repository: Path) -> None:
    new = ARCHIVE.with_suffix(".new")
    # The JVM writes it at its end, after pytest's: uncaptured (-s) it holds the same stdout, and
    # only at the end of that is the run over.
    options = _options(f"-XX:ArchiveClassesAtExit={new}")
    run_own_tests(repository, "-s", *RECORDED_BY, JDK_JAVA_OPTIONS=options)
    new.rename(ARCHIVE)


def _options(archive: str) -> str:
    # What a JVM says of an archive goes to standard output, where Spark's launcher is read from.
    return f"{os.environ['JDK_JAVA_OPTIONS']} {archive} -Xlog:disable"
