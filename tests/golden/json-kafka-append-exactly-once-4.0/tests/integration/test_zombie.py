"""A process that was taken for dead and is not: its rows do not count."""

import os
import signal
from contextlib import suppress
from pathlib import Path

from orders_pipeline import table

from tests.integration.test_process import Job
from tests.support.pipeline import MakePipeline, event
from tests.support.topics import end_offsets, read_topic, wait_until


def test_process_that_was_only_asleep_is_shut_out(make: MakePipeline, tmp_path: Path) -> None:
    """Stopped: a job and its workers, with a transaction open; then another runs, then it goes on.

    Expected: the other sends each row once, what the first had open is rolled back, and the first
    ends with a sentence.
    """
    count = 100_000
    pipeline = make()
    pipeline.send(*(event(f"k{n}", n, partition=n % 2) for n in range(count)))
    job = Job(pipeline, tmp_path)
    servers, name = pipeline.bootstrap_servers, pipeline.topic.location

    def has_open_transactions() -> bool:
        return table.exists(pipeline.spark, pipeline.topic) and all(
            end > 0 for end in end_offsets(servers, name).values()
        )

    try:
        wait_until(has_open_transactions, 120, "the job has sent rows in each partition")
        signal_session(job.pid, signal.SIGSTOP)
        assert "balance {" not in job.log.read_text()
        sent_by_the_first = sum(end_offsets(servers, name).values())
        assert len(read_topic(servers, name)) < sent_by_the_first
        pipeline.drain()
        assert len(read_topic(servers, name)) == count
        signal_session(job.pid, signal.SIGCONT)
        assert job.exit_code() == 3, job.log.read_text()[-3000:]
    finally:
        signal_session(job.pid, signal.SIGCONT)
        job.end()
    assert "Another process sends the rows of" in job.log.read_text()
    held = read_topic(servers, name)
    sources = {(each.headers["ingest.partition"], each.headers["ingest.offset"]) for each in held}
    assert len(held) == len(sources) == count


def signal_session(session: int, number: signal.Signals) -> None:
    """To all processes of a session: Spark's workers have left the job's process group."""
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            if entry.read_text().rpartition(")")[2].split()[3] == str(session):
                os.kill(int(entry.parent.name), number)
