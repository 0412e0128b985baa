"""The pipeline as a process: how it ends, and what that leaves behind."""

import json
import os
import signal
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import pytest

from orders_pipeline import cli, doctor, sink, table
from orders_pipeline.checkpoint import Checkpoint
from orders_pipeline.errors import BatchError, RefusedError, SettingsError

from tests.support.pipeline import MakePipeline, Pipeline, event
from tests.support.topics import delete_topic, wait_until

TIMEOUT_S = 120


def variables(pipeline: Pipeline, trigger: str) -> dict[str, str]:
    """The pipeline's settings, for the environment of a process."""
    settings = pipeline.settings.model_dump(mode="json", exclude_none=True)
    return {
        f"PIPELINE_{name.upper()}": value if isinstance(value, str) else json.dumps(value)
        for name, value in (settings | {"trigger": trigger}).items()
    }


class Job:
    """One run of the pipeline in a process of its own; its log is in ``log``."""

    def __init__(self, pipeline: Pipeline, folder: Path, trigger: str = "1 seconds") -> None:
        self.log = folder / f"job-{uuid.uuid4().hex[:6]}.log"
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.job", "run"],
            env={**os.environ, "SPARK_LOCAL_DIRS": str(folder), **variables(pipeline, trigger)},
            stdout=subprocess.DEVNULL,
            stderr=self.log.open("w"),
            start_new_session=True,
        )

    def wait_until_logged(self, text: str) -> None:
        def is_logged() -> bool:
            ended = self.has_ended()
            assert not ended or text in self.log.read_text(), self.log.read_text()[-3000:]
            return text in self.log.read_text()

        wait_until(is_logged, TIMEOUT_S, f"the job logs {text!r}")

    def send_signal(self, number: signal.Signals) -> None:
        """To the process alone, as to PID 1 of a container."""
        self._process.send_signal(number)

    def kill(self) -> None:
        """Ends the process and its JVM at once, as a machine that is gone."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def exit_code(self) -> int:
        return self._process.wait(TIMEOUT_S)

    def end(self) -> None:
        if not self.has_ended():
            self.kill()


@pytest.fixture
def pipeline(make: MakePipeline) -> Pipeline:
    return make()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_finishes_the_batch_in_hand_and_exits_0(
    pipeline: Pipeline, tmp_path: Path, number: signal.Signals
) -> None:
    """Sent: a signal in a batch. Expected: exit 0, and no batch is planned but not committed."""
    pipeline.send(*(event(f"k{n}", n) for n in range(20_000)))
    job = Job(pipeline, tmp_path)
    try:
        job.wait_until_logged("batch 0 of")
        job.send_signal(number)
        assert job.exit_code() == 0, job.log.read_text()[-3000:]
    finally:
        job.end()
    checkpoint = Checkpoint(pipeline.spark, pipeline.topic.checkpoint, pipeline.topic.name)
    planned, committed = (
        {name for name in checkpoint.files.names(folder) if name.isdigit()}
        for folder in ("offsets", "commits")
    )
    assert planned
    assert committed == planned
    assert len(pipeline.rows()) == 20_000


def test_job_goes_on_after_sigkill(pipeline: Pipeline, tmp_path: Path) -> None:
    """Killed: the process, in its first batch; then it runs to the end."""
    pipeline.send(*(event(f"k{n}", n) for n in range(1_000)))
    job = Job(pipeline, tmp_path)
    try:
        job.wait_until_logged("batch 0 of")
        job.kill()
    finally:
        job.end()
    pipeline.send(event("last", 1))
    pipeline.drain()

    ids = [row.id for row in pipeline.rows()]
    assert "last" in ids
    assert sorted(ids) == sorted([*(f"k{n}" for n in range(1_000)), "last"])


def test_all_queries_stop_and_the_exit_code_says_so_when_one_dies(
    make: MakePipeline, tmp_path: Path
) -> None:
    """Deleted: one of two topics, while records go to the other. Expected: exit 1, no batch cut."""
    names = [f"lives-{uuid.uuid4().hex[:8]}", f"dies-{uuid.uuid4().hex[:8]}"]
    pipeline = make(topics=names)
    for name in names:
        pipeline.send(event("a", 1), topic=name)
    job = Job(pipeline, tmp_path)
    try:
        for name in names:
            job.wait_until_logged(f'balance {{"topic": "{name}"')
        delete_topic(pipeline.bootstrap_servers, names[1])

        def send_until_it_ends() -> bool:
            pipeline.send(event(uuid.uuid4().hex, 1))
            return job.has_ended()

        wait_until(send_until_it_ends, TIMEOUT_S, "the job ends")
        assert job.exit_code() == 1, job.log.read_text()[-3000:]
    finally:
        job.end()
    ends = Checkpoint(pipeline.spark, pipeline.topic.checkpoint, names[0]).committed_ends()
    assert ends
    assert len(pipeline.rows()) == sum(ends.values())


@pytest.mark.parametrize("end", ["from", "to"])
def test_backfill_exits_2_when_an_end_of_its_range_is_given_twice(
    end: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Given: an end by its offsets and by a time. Expected: a word that names both."""
    twice = [f"--{end}-offsets", "{}", f"--{end}-time", "2026-01-31T08:00+00:00"]
    with pytest.raises(SystemExit) as ended:
        cli.main(["backfill", "orders", *twice])
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert f"--{end}-time: not allowed with argument --{end}-offsets" in said


def test_backfill_exits_1_and_says_what_to_do_when_spark_fails(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Failing: the write, for want of a column, as where the stream has not yet added it."""
    pipeline.send(event("a", 1))
    pipeline.drain()
    monkeypatch.setattr(cli, "load", lambda: pipeline.settings)
    monkeypatch.setattr(cli, "start_session", lambda *_, **__: pipeline.spark)
    monkeypatch.setattr(sink, "fill", lambda rows, topic: rows.select("colour"))

    code = cli.main(["backfill", pipeline.topic.name, "--from-offsets", '{"0": 0}'])

    assert code == 1
    said = caplog.records[-1].getMessage()
    assert said.startswith(f"The backfill of {pipeline.topic.name} could not be finished: ")
    assert "colour" in said
    assert "start the stream once first (`run`)" in said


def test_two_on_one_checkpoint_write_a_batch_once(
    pipeline: Pipeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While one is about to write a batch, another process does that batch and ends.

    Expected: the first stops, and each row is there once.
    """
    pipeline.send(event("a", 1), event("b", 2))
    write = sink.write

    def write_after_another(*arguments: Any) -> Any:
        job = Job(pipeline, tmp_path, trigger="availableNow")
        try:
            assert job.exit_code() == 0, job.log.read_text()[-3000:]
        finally:
            job.end()
        return write(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(sink, "write", write_after_another)
        with pytest.raises(BatchError, match="came into the table while this process was at it"):
            pipeline.drain()

    pipeline.drain()
    assert sorted(row.id for row in pipeline.rows()) == ["a", "b"]


def test_doctor_finds_nothing_wrong_and_writes_nothing(
    make: MakePipeline, capsys: pytest.CaptureFixture[str]
) -> None:
    """Looked at: a pipeline before its first run, and after it."""
    pipeline = make()
    assert doctor.examine(pipeline.spark, pipeline.settings)
    assert not table.exists(pipeline.spark, pipeline.topic)
    pipeline.send(event("a", 1))
    pipeline.drain()
    assert doctor.examine(pipeline.spark, pipeline.settings)
    assert "0 offsets behind" in capsys.readouterr().out


def test_compact_folds_files_and_keeps_every_row(make: MakePipeline) -> None:
    """Written: three small files. Expected: one, with the same rows. Before: refused."""
    pipeline = make()
    with pytest.raises(RefusedError, match=r"no table .* yet"):
        table.compact(pipeline.spark, pipeline.topic, retention_hours=168)
    for n in range(3):
        pipeline.send(event(f"k{n}", n))
        pipeline.drain()
    before = pipeline.rows()

    table.compact(pipeline.spark, pipeline.topic, retention_hours=168)

    assert pipeline.rows() == before
    with pytest.raises(SettingsError, match="1 hours are less than the table"):
        table.compact(pipeline.spark, pipeline.topic, retention_hours=1)
    detail = table.open_table(pipeline.spark, pipeline.topic).detail().first()
    assert detail is not None
    assert detail.numFiles == 1
