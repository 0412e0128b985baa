"""What a job holds while it runs: in its first million records, and in its last."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench_work import DDL, Result, say
from running import Repository

HEAP = "512m"
"""The JVM's: small, so that it is full within the first million, and what leaks ends the run."""


def measure_memory(
    product: Repository,
    what: str,
    broker: str,
    folder: Path,
    topic: str,
    millions: int,
    **changes: Any,
) -> Iterator[Result]:
    """Runs a product over a topic of as many *millions*, as a process of its own."""
    kafka = {"max_offsets_per_trigger": 500_000}
    settings = product.settings(folder, broker, topic, DDL, kafka=kafka, **changes)
    log = folder / "job.log"
    job = subprocess.Popen(
        [sys.executable, "-m", "tests.support.job", "run"],
        cwd=product.path,
        env=product.environment(settings)
        | {"PYSPARK_SUBMIT_ARGS": f"--driver-memory {HEAP} pyspark-shell"},
        stdout=subprocess.DEVNULL,
        stderr=log.open("w"),
    )
    peaks: dict[int, dict[str, int]] = {}
    while job.poll() is None:
        done = log.read_text().count("balance {") // 2 + 1
        for name, held in resident_mib(job.pid).items():
            peak = peaks.setdefault(done, {})
            peak[name] = max(peak.get(name, 0), held)
        time.sleep(0.2)
    assert job.returncode == 0, log.read_text()[-3000:]
    for name in ("driver", "JVM", "workers"):
        say(f"  {what}, {name}, MiB by million: {[peaks[done][name] for done in sorted(peaks)]}")
        first, last = peaks[1][name], peaks[millions][name]
        ours = f"{last:,} MiB in the {millions}th million"
        beside = f"{first:,} MiB in the first"
        yield Result(f"memory, {what}: {name}", ours, beside, f"{last / first:.2f} x", "the same")


def resident_mib(root: int) -> dict[str, int]:
    """What a job's processes hold: its Python driver, the JVM, the Python workers together."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = entry.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has just ended
        parents.setdefault(int(fields[1]), []).append(int(entry.parent.name))
    held = {"driver": 0, "JVM": 0, "workers": 0}
    waiting = [(root, "driver")]
    while waiting:
        process, name = waiting.pop()
        try:
            pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
        except (OSError, IndexError):
            continue
        held[name] += pages * os.sysconf("SC_PAGE_SIZE") // 2**20
        below = {"driver": "JVM", "JVM": "workers", "workers": "workers"}[name]
        waiting += [(child, below) for child in parents.get(process, [])]
    return held
