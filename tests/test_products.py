"""Every variant as its user has it: its own tests, against a real broker; its image, once.

A variant's own tests (``template/tests``) send good, bad, duplicate, late and null records, crash
in each gap between the effects of a batch, and count what its guarantee says: the crashes run in
every variant, one after another in a JVM that they share. The rest, of modules that variants have
in common, run in one of them, those of a format in one of that format, and those of a sink in one
of that sink, with what depends on how rows are written. A sink that the newest Spark has not is
run on the newest that has it, in an environment that its variants share. The default variant is
run by ``make test``, as its user does: all of it on the default Spark, and on every other Spark
what depends on Spark. ``make whole`` runs all of it for each sink under each guarantee.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from own_tests import OwnTests
from rendering import MATRIX, choices, name_of, render, usual_spark, variants
from running import Repository, python_for, render_to_run, run, run_own_tests

pytestmark = pytest.mark.usefixtures("spark_classes")
BARE_JSON = ("json", "none")
FULL_DISK = "tests/integration/test_full_disk.py"
FULL_DISKS = {
    **dict.fromkeys(("parquet", "delta", "iceberg"), "full_disk.py"),
    "postgres": "full_disk_of_postgres.py",
    "kafka": "full_disk_of_kafka.py",
}
"""For each sink the story of its own disk, or of its server's, beside this file."""
HERE = next(iter(MATRIX["spark"]))
"""The Spark version of this environment: the default one."""
RUN_HERE = [
    {**answers, "storage": "local"}
    for answers in variants()
    if answers["spark_version"] == usual_spark(answers)
]
"""The first is the default, which ``make test`` runs."""
DEFAULT_SINK = choices("sink")[0]
QUESTIONS = ("value_format", "schema_registry", "sink", "write_mode", "delivery_guarantee")
DEEP = {
    ("avro", "confluent", "delta", "upsert", "at-least-once"),
    ("protobuf", "confluent", "delta", "append", "at-most-once"),
}
"""Of the other formats, one each runs all that has to do with decoding, keys and the registry."""
WRITING = (
    "named_alike or new_field or changed_type or backfill or two_topics or balance_holds or 10_mb "
    "or filled_in_is_counted"
)
"""What depends on the sink among what is done with good records."""
MERGED = "newest_record_of_a_key or null_key_column"
"""What every upsert has to get right."""
GREW = "topic_that_grew"
OF_THE_SINK = {
    "iceberg": f"(test_iceberg and hadoop) or test_rest_catalog or {MERGED}",
    "kafka": f"test_output or test_zombie or {GREW}",
    "parquet": f"test_folders or compact or {GREW} or {WRITING}",
    "postgres": f"test_database or test_misfits or test_upsert or {GREW} or {WRITING}",
    "sqlserver": (
        f"test_database or test_misfits or test_sql_server or {GREW} or {MERGED} or new_field"
    ),
}
"""What others may do to its tables; run with JSON, exactly-once, of the write modes in one."""
CRASHES = "any_gap"
"""The story with a crash in each gap: good, bad, mixed and wrongly framed records, and deletes."""
ONCE = (
    f"{CRASHES} or good_records or wrong_headers or framed_values or unit or framing "
    "or new_field_becomes or written_batch_is_skipped"
)
"""What a decoder passes once."""
DELETES = "null_value or delete_names"
MERGING = f"test_upsert or unit or repeat or {WRITING}"
"""What of the default sink depends on the write mode."""
ON_ANOTHER_SPARK = (
    f"{CRASHES} or good_records or repeat or test_binding or compact or new_field or changed_type"
)
"""What of the default variant is Spark's and Delta's to do."""
DECODING = (
    f"{ONCE} or registry or new_versions or framed_keys or newest or breaker or backfill_adds "
    "or named_alike or changed_type or 10_mb or is_truncated"
)
REST = "made_filled or answer_is_lost"
FOLDERS = "cut_short or arrow_reads or goes_on_after_a_fold"
"""What a catalog and a fold ask of the store."""
IN_BUCKETS: dict[tuple[str, ...], str] = {
    ("s3", "delta", "upsert", "exactly-once"): f"{CRASHES} or object_store or table_lock",
    ("s3", "iceberg", "upsert", "exactly-once"): f"{CRASHES} or object_store or {REST}",
    ("s3", "parquet", "append", "exactly-once"): f"{CRASHES} or object_store or {FOLDERS}",
    ("gcs", "delta", "upsert", "exactly-once"): f"{CRASHES} or object_store",
    ("gcs", "iceberg", "append", "exactly-once"): f"{CRASHES} or object_store or made_filled",
    ("azure", "delta", "append", "exactly-once"): f"{CRASHES} or object_store",
}
"""What is run, with bare JSON, where the checkpoint is in a bucket, and a table of files too."""
WITH_A_SCHEMA = [
    {**answers, "output_format": output_format}
    for answers in RUN_HERE
    for output_format in choices("output_format")[1:]
    if tuple(answers[question] for question in QUESTIONS)
    == (*BARE_JSON, "kafka", "append", "exactly-once")
]
"""Into a topic whose values have a schema: bare JSON comes out as each of them."""
OF_ITS_TOPIC = (
    "faults or topic_goes or hides_it or lost_checkpoint or forgot or recreated or missing_output "
    "or pipelines_own or unasked or newest_record"
)
"""What of an output topic has nothing to do with what its values are."""
SENT_OTHERWISE = [("kafka", "append", "at-least-once"), ("kafka", "append", "at-most-once")]
"""By Spark's own sink, with other settings each: what brokers and clusters may do to that."""
OWN_JARS = ("delta", "iceberg", "sqlserver")
KEPT = 2
Record = Callable[[str, object], None]


def decoder_and_guarantee(answers: dict[str, Any]) -> tuple[str, ...]:
    return tuple(answers[question] for question in QUESTIONS)


def chosen(answers: dict[str, Any]) -> str:
    """Which of a variant's own tests are run, as pytest's -k takes it."""
    is_bare_json = (answers["value_format"], answers["schema_registry"]) == BARE_JSON
    if decoder_and_guarantee(answers) in DEEP:
        return DECODING
    if is_bare_json and decoder_and_guarantee(answers)[2:] in SENT_OTHERWISE:
        return f"{CRASHES} or test_output_faults or test_retries"
    if answers["delivery_guarantee"] != "exactly-once":
        return CRASHES
    if answers in WITH_A_SCHEMA:
        return f"{CRASHES} or (test_output and not ({OF_ITS_TOPIC}))"
    if answers["sink"] == DEFAULT_SINK:
        if answers["write_mode"] == "append":
            return ONCE
        return f"{CRASHES} or {MERGING if is_bare_json else DELETES}"
    if not is_bare_json:
        return CRASHES
    controls = f"{CRASHES} or repeat or (label_has_expired and hadoop)"
    one_mode = answers["write_mode"] == "upsert" or answers["sink"] in ("kafka", "parquet")
    return f"{controls} or test_binding or {OF_THE_SINK[answers['sink']]}" if one_mode else controls


def by_jars(chosen_here: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Variants with the same jars stand together."""
    return sorted(
        chosen_here,
        key=lambda answers: (
            answers["sink"] if answers["sink"] in OWN_JARS else "",
            "avro" in (answers["value_format"], answers.get("output_format")),
        ),
    )


def in_turn() -> list[dict[str, Any]]:
    """One variant for each sink, write mode and guarantee; the decoders take turns."""
    decoders = list(dict.fromkeys(decoder_and_guarantee(answers)[:2] for answers in RUN_HERE))
    rest = dict.fromkeys(decoder_and_guarantee(answers)[2:] for answers in RUN_HERE)
    found = {decoder_and_guarantee(answers): answers for answers in RUN_HERE}
    turns = ((number + number // len(decoders)) % len(decoders) for number in range(len(rest)))
    return [found[(*decoders[turn], *each)] for turn, each in zip(turns, rest, strict=True)]


def summary(printed: str) -> str:
    """The line in which pytest says how many tests passed; none may be skipped.

    But for the one that wants a real SQL Server, which the line then says in so many words.
    """
    lines = [line for line in printed.splitlines() if re.search(r"\d+ passed", line)]
    assert lines, printed[-8000:]
    not_run = re.findall(r"^SKIPPED \[1\] \S+ (SQL Server: NOT RUN .*)$", printed, re.MULTILINE)
    skipped = re.search(r"(\d+) skipped", lines[-1])
    assert int(skipped[1] if skipped else 0) == len(not_run), printed[-8000:]
    return "; ".join([lines[-1], *not_run])


class SharedProcesses:
    """The processes that variants share: one for each set of jars, all with the same broker.

    Variants come sorted by their jars, so those of the last two sets are enough; more would not fit
    into memory.
    """

    def __init__(self, folder: Path, until_closed: ExitStack) -> None:
        self._folder = folder
        self._until_closed = until_closed
        self._broker: Any = None
        self._processes: dict[Path, OwnTests] = {}

    def of(self, repository: Repository) -> OwnTests:
        """The process for a repository's tests; started for the first one with these jars."""
        if self._broker is None:
            starting = repository.support("broker").start_broker()
            self._broker = self._until_closed.enter_context(starting)
        if repository.jars not in self._processes:
            if len(self._processes) == KEPT:
                self._processes.pop(next(iter(self._processes))).close()
            log = self._folder / f"{repository.jars.name}.log"
            python = python_for(repository.path)
            servers = self._broker.bootstrap_servers
            process = OwnTests(python, repository.jars, servers, log)
            self._processes[repository.jars] = process
        return self._processes[repository.jars]

    def close(self) -> None:
        """Ends those that still run."""
        for process in self._processes.values():
            process.close()


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedProcesses]:
    with ExitStack() as until_closed:
        processes = SharedProcesses(tmp_path_factory.mktemp("shared"), until_closed)
        until_closed.callback(processes.close)
        yield processes


@pytest.mark.whole
@pytest.mark.spread
@pytest.mark.parametrize("answers", by_jars(in_turn()), ids=name_of)
def test_all_own_tests_pass(
    answers: dict[str, Any], tmp_path: Path, shared: SharedProcesses, record_property: Record
) -> None:
    """Run: every test of the rendered repository. Expected: all pass, none is skipped."""
    record_property("variant", name_of(answers))
    repository = render_to_run(tmp_path, "variant", **answers)
    record_property("ran", summary(shared.of(repository).run(repository.path, "tests")))


@pytest.mark.spread
@pytest.mark.parametrize("answers", by_jars([*RUN_HERE[1:], *WITH_A_SCHEMA]), ids=name_of)
def test_guarantee_holds(
    answers: dict[str, Any], tmp_path: Path, shared: SharedProcesses, record_property: Record
) -> None:
    """Run: the story once through and the crashes. Expected: all pass, none is skipped."""
    record_property("variant", name_of(answers))
    repository = render_to_run(tmp_path, "variant", **answers)
    printed = shared.of(repository).run(repository.path, "tests", f"-k {chosen(answers)}")
    record_property("ran", summary(printed))


@pytest.mark.spread
@pytest.mark.parametrize("sink", FULL_DISKS)
def test_full_disk_loses_nothing(
    sink: str, tmp_path: Path, shared: SharedProcesses, record_property: Record
) -> None:
    """Run: the story of a full disk. Expected: all pass, none is skipped."""
    if os.geteuid() != 0:
        pytest.skip("not run: a disk of its own can only be mounted by root")
    append = (*BARE_JSON, sink, "append", "exactly-once")
    [answers] = [each for each in RUN_HERE if decoder_and_guarantee(each) == append]
    record_property("variant", f"{name_of(answers)}, its disk full")
    repository = render_to_run(tmp_path, "variant", **answers)
    shutil.copy(Path(__file__).with_name(FULL_DISKS[sink]), repository.path / FULL_DISK)
    printed = shared.of(repository).run(repository.path, FULL_DISK)
    record_property("ran", summary(printed))


@pytest.mark.long
@pytest.mark.spread
@pytest.mark.parametrize(
    "answers",
    [
        {**answers, "storage": storage}
        for storage, *others in IN_BUCKETS
        for answers in RUN_HERE
        if decoder_and_guarantee(answers) == (*BARE_JSON, *others)
    ],
    ids=name_of,
)
def test_guarantee_holds_in_a_bucket(
    answers: dict[str, Any], tmp_path: Path, record_property: Record
) -> None:
    """Run: the crashes, and what the store may do. Expected: all pass, none is skipped."""
    record_property("variant", name_of(answers))
    repository = render_to_run(tmp_path, "variant", **answers)
    asked = ("storage", "sink", "write_mode", "delivery_guarantee")
    chosen_here = IN_BUCKETS[tuple(answers[question] for question in asked)]
    printed = run_own_tests(repository.path, "tests", "-k", chosen_here)
    record_property("ran", summary(printed))


@pytest.mark.long
@pytest.mark.spread
@pytest.mark.parametrize("version", MATRIX["spark"])
def test_make_test_passes_as_a_user_runs_it(
    version: str, tmp_path: Path, record_property: Record
) -> None:
    """Run: make test, nothing before it. Expected: all pass, none is skipped."""
    record_property("variant", f"the default answers, Spark {version}")
    repository = render(tmp_path / "variant", spark_version=version)
    run(["git", "init", "--quiet"], repository)
    options = "" if version == HERE else f"-k '{ON_ANOTHER_SPARK}'"
    printed = run(["make", "test"], repository, PYTEST_ADDOPTS=options)
    record_property("ran", summary(printed))


@pytest.mark.spread
def test_image_ingests_and_ends_with_0_on_sigterm(tmp_path: Path) -> None:
    """Run: make image, then the image against a broker, as a user that is not root.

    Expected: the rows are in the table, and SIGTERM to its PID 1 ends it with exit code 0.
    """
    if not has_docker():
        assert not os.environ.get("CI"), "no Docker engine in CI"
        pytest.skip("not run: no Docker engine, so no image was built")
    repository = render_to_run(tmp_path, "imaged", trigger="1 seconds")
    run(["git", "init", "--quiet"], repository.path)
    run(["make", "image", "DOCKER_BUILD_OPTIONS=--network=host"], repository.path)
    topics = repository.support("topics")
    with repository.support("broker").start_broker() as broker:
        topics.create_topic(broker.bootstrap_servers, "orders")
        value = b'{"id": "a", "occurred_at": "2026-01-01T00:00:00Z"}'
        topics.produce(broker.bootstrap_servers, "orders", [(b"a", value), (b"b", b"{bad")])
        address = f"PIPELINE_KAFKA__BOOTSTRAP_SERVERS={broker.bootstrap_servers}"
        start = ["docker", "run", "--detach", "--network=host", "--env", address, "imaged"]
        container = run(start, repository.path).strip()
        try:
            topics.wait_until(
                lambda: '"written": 1' in run(["docker", "logs", container], repository.path),
                180,
                "the container writes its row",
            )
            assert run(["docker", "exec", container, "id", "-u"], repository.path).strip() != "0"
            run(["docker", "stop", "--time", "60", container], repository.path)
            state = ["docker", "inspect", "--format", "{{.State.ExitCode}}", container]
            assert run(state, repository.path).strip() == "0"
        finally:
            run(["docker", "rm", "--force", container], repository.path)


def has_docker() -> bool:
    """True where a Docker engine answers."""
    try:
        return not subprocess.run(["docker", "info"], capture_output=True, check=False).returncode
    except FileNotFoundError:
        return False
