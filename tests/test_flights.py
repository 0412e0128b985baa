"""Real input: a year of flights, a crash in the middle, and what pandas makes of the same."""

import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import pytest

import flights
from flights import COLUMNS, COORDINATES, DDL, PARTITIONS, Flights
from running import Repository, end_session, render_to_run

BATCH = 100_000
"""Records in a batch at most: several batches, so that there is a middle to crash in."""


class Run(NamedTuple):
    """What a pipeline left behind, and what it said of it."""

    table: pd.DataFrame
    letters: list[Any]
    """``topics.Record``s."""
    balances: list[Any]
    """``batch.Balance``s, one for each batch that was finished."""


class Crash(Exception):
    """Stands for the end of the process."""


@pytest.fixture(scope="module")
def sent() -> Flights:
    return flights.make()


@pytest.fixture(scope="module")
def repositories(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Repository]:
    folder = tmp_path_factory.mktemp("flights")
    upsert = {"write_mode": "upsert", "key_columns": flights.KEY}
    return {
        "upsert": render_to_run(folder, "flights-upsert", **upsert),
        "append": render_to_run(folder, "flights-append"),
    }


@pytest.fixture(scope="module")
def spark(repositories: dict[str, Repository]) -> Iterator[Any]:
    session = repositories["append"].module("spark").start_session("flights", master="local[2]")
    yield session
    end_session(session)


@pytest.fixture(scope="module")
def broker(
    repositories: dict[str, Repository], sent: Flights, spark: Any
) -> Iterator[tuple[str, str]]:
    """The address of a broker, and the topic in it that holds the events."""
    support = repositories["append"].support
    with support("broker").start_broker() as running:
        address = running.bootstrap_servers
        support("topics").create_topic(address, "flights", PARTITIONS)
        support("topics").produce(address, "flights", sent.records)
        yield address, "flights"


def run_with_a_crash(
    repository: Repository,
    spark: Any,
    broker: tuple[str, str],
    folder: Path,
    crash_in: tuple[str, str],
    monkeypatch: pytest.MonkeyPatch,
    **sections: Any,
) -> Run:
    """Runs the pipeline until it dies in its second batch, where it calls *crash_in*, and again."""
    address, topic = broker
    kafka = {"max_offsets_per_trigger": BATCH}
    settings = repository.settings(folder, address, topic, DDL, kafka=kafka, **sections)
    balances: list[Any] = []
    publish = repository.module("metrics").publish

    def keep(balance: Any, topic: str, seconds: float) -> None:
        balances.append(balance)
        publish(balance, topic, seconds)

    def run() -> None:
        repository.module("streams").run(spark, settings, threading.Event(), rebind=[])

    monkeypatch.setattr(repository.module("metrics"), "publish", keep)
    module, function = crash_in
    whole = getattr(repository.module(module), function)

    def dies_in_the_second_batch(*arguments: Any) -> Any:
        if len(balances) == 1:
            raise Crash
        return whole(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(repository.module(module), function, dies_in_the_second_batch)
        with pytest.raises(repository.module("errors").BatchError, match="Crash"):
            run()
    assert len(balances) == 1
    run()

    bound = settings.topic_settings(topic)
    rows = repository.module("table").read(spark, bound).toArrow().to_pandas()
    letters = repository.support("topics").read_topic(address, bound.dead_letters)
    return Run(rows, letters, balances)


def assert_same_rows(table: pd.DataFrame, expected: pd.DataFrame) -> None:
    """Every column of every row, coordinates included; no row twice, none missing."""
    assert set(table["_topic"]) == {"flights"}
    assert len(table) == len(expected)
    found = table[[*COLUMNS, *COORDINATES]].astype(
        {name: "Int64" for name in COLUMNS if str(expected[name].dtype) == "Int64"}
        | {name: expected[name].dtype for name in ("scheduled", *COORDINATES)}
    )
    found = found.sort_values(["_partition", "_offset"]).reset_index(drop=True)
    found["tailnum"] = found["tailnum"].where(found["tailnum"].notna(), None)
    expected = expected.assign(tailnum=expected["tailnum"].where(expected["tailnum"].notna(), None))
    pd.testing.assert_frame_equal(found, expected, check_column_type=False)


def as_counted(letters: list[Any]) -> Counter[tuple[bytes | None, bytes | None, str]]:
    reason = "__connect.errors.exception.class.name"
    return Counter((each.key, each.value, each.headers[reason].decode()) for each in letters)


def test_upsert_is_what_pandas_computes_after_a_crash_between_rows_and_dead_letters(
    repositories: dict[str, Repository],
    spark: Any,
    sent: Flights,
    broker: tuple[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Sent: a year of events. Dies: in the second batch, its rows written, its letters not.

    Expected: the newest state of every flight that was not deleted last; of each spoiled record one
    dead letter, byte for byte, with its reason; every record in the balance of one batch.
    """
    run = run_with_a_crash(
        repositories["upsert"],
        spark,
        broker,
        tmp_path,
        ("dead_letters", "send"),
        monkeypatch,
    )

    assert_same_rows(run.table, sent.table_of_newest())
    assert as_counted(run.letters) == sent.letters(spoiled_keys=True)
    assert_accounted_for(run, sent)
    total = totals(run)
    assert total["dead_lettered"] == len(run.letters)
    assert min(total["deleted"], total["deduplicated"], total["stale"], total["skipped"]) > 0


def test_append_counts_every_good_record_once_after_a_crash_before_the_commit(
    repositories: dict[str, Repository],
    spark: Any,
    sent: Flights,
    broker: tuple[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Dies: in the second batch, rows and letters written, Spark's commit not.

    Expected: every good record once; every spoiled one in the dead letters, that batch's twice.
    """
    run = run_with_a_crash(
        repositories["append"],
        spark,
        broker,
        tmp_path,
        ("kafka", "publish_progress"),
        monkeypatch,
        dead_letters={"topic_suffix": ".append.DLT"},
    )

    assert_same_rows(run.table, sent.table_of_all())
    where = ["__connect.errors.partition", "__connect.errors.offset"]
    once = {tuple(each.headers[name] for name in where): each for each in run.letters}
    assert as_counted(list(once.values())) == sent.letters(spoiled_keys=False)
    assert len(run.letters) - len(once) == run.balances[1].dead_lettered > 0
    assert_accounted_for(run, sent)
    second, total = run.balances[1], totals(run)
    assert second.skipped == second.read - second.dead_lettered
    deletes = (sent.events["what"] == "delete").sum()
    spoiled_keys = sent.letters(True).total() - sent.letters(False).total()
    assert total["written"] + total["skipped"] == len(run.table) + deletes + spoiled_keys


def assert_accounted_for(run: Run, sent: Flights) -> None:
    """Every batch adds up, and together they have read every record once."""
    assert all(balance.holds for balance in run.balances)
    assert len(run.balances) > 4
    assert sum(balance.read for balance in run.balances) == len(sent.records)


def totals(run: Run) -> Counter[str]:
    """For each outcome, the records of all batches."""
    total: Counter[str] = Counter()
    for balance in run.balances:
        total.update(balance.outcomes)
    return total
