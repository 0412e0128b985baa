"""Spark's classes, read and verified once for all JVMs: one that has them starts in half the time.

The archive is recorded by a JVM that ingests a few records, for the jars of this environment at
this place. A JVM that cannot use it, another Java's, does without.
"""

import fcntl
import os
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

from rendering import render
from running import jars_of

ARCHIVE = Path(sys.prefix) / "spark-classes.jsa"
RECORDED_BY = ["tests/integration/test_crashes.py", "-k", "any_gap"]
"""A test of the repository's own that reads, writes and sends dead letters."""


@cache
def jvm_options() -> str:
    """``JDK_JAVA_OPTIONS`` with the archive; recorded first, where there is none."""
    with ARCHIVE.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # one of the test processes records, the others wait
        if not ARCHIVE.exists():
            with tempfile.TemporaryDirectory() as folder:
                _record(render(Path(folder) / "recorded"))
    return _options(f"-XX:SharedArchiveFile={ARCHIVE}")


def _record(repository: Path) -> None:
    new = ARCHIVE.with_suffix(".new")
    environment = {
        "PYTHONPATH": str(repository / "src"),
        "PIPELINE_JARS": str(jars_of(repository)),
        "JDK_JAVA_OPTIONS": _options(f"-XX:ArchiveClassesAtExit={new}"),
    }
    # The JVM writes it at its end, after pytest's: uncaptured (-s) it holds the same stdout, for
    # whose end run() waits.
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-s", "-p", "no:cacheprovider", *RECORDED_BY],
        cwd=repository,
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-8000:]
    new.rename(ARCHIVE)


def _options(archive: str) -> str:
    # What a JVM says of an archive goes to standard output, where Spark's launcher is read from.
    return f"{os.environ['JDK_JAVA_OPTIONS']} {archive} -Xlog:disable"
