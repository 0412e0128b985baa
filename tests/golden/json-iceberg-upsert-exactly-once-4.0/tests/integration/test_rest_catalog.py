"""A REST catalog, through a table's life; and where it is away, or keeps its answer to itself."""

import socket
from collections.abc import Iterator
from typing import Any

import pytest

from orders_pipeline import (
    binding,
    catalog,
    commits,
    compaction,
    doctor,
    sink,
    table,
)
from orders_pipeline.checkpoint import Checkpoint
from orders_pipeline.errors import BatchError, NoAnswerError, RefusedError

from tests.support.pipeline import MakePipeline, Pipeline, bad, event
from tests.support.rest_catalog import RestCatalog
from tests.support.tables import data_files, drop_table


@pytest.fixture
def make(make: MakePipeline, rest_catalog: RestCatalog) -> MakePipeline:
    """Makes a pipeline whose tables that catalog knows."""

    def make_with_service(**settings: Any) -> Pipeline:
        return make(**settings | {"table": rest_catalog.settings | settings.get("table", {})})

    return make_with_service


@pytest.fixture
def silent() -> Iterator[str]:
    """The address of a server that takes connections, and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


def ids(pipeline: Pipeline) -> list[str]:
    return sorted(row.id for row in pipeline.rows())


def test_table_is_made_filled_widened_and_folded(make: MakePipeline) -> None:
    """Sent: good and bad records, then one with a new field. Expected: a row for each good one.

    Every batch's label is found, and a fold leaves one file with the same rows.
    """
    pipeline = make()
    pipeline.send(event("a", 1), event("b", 2, partition=1), bad("x"))
    pipeline.drain()
    pipeline.write_schema("id STRING NOT NULL, amount INT NOT NULL, note STRING, more STRING")
    pipeline.send(event("c", 3, more="yes"))
    pipeline.drain()

    assert {row.id: row.more for row in pipeline.rows()} == {"a": None, "b": None, "c": "yes"}
    assert all(balance.holds for balance in pipeline.balances)
    labels = [commit.label for commit in table.commits(pipeline.spark, pipeline.topic)]
    assert [label and label["batch"] for label in labels] == [1, 0]
    before = pipeline.rows()
    compaction.compact(pipeline.spark, pipeline.topic, retention_hours=0)
    assert pipeline.rows() == before
    assert len(data_files(pipeline.spark, pipeline.topic)) == 1


def test_replayed_batch_is_written_once(make: MakePipeline) -> None:
    """Spark hands over a batch again that it has not noted. Expected: its label is found."""
    pipeline = make()
    pipeline.send(event("a", 1), event("b", 2))
    pipeline.drain()
    checkpoint = Checkpoint(pipeline.spark, pipeline.topic.checkpoint, pipeline.topic.name)
    checkpoint.files.delete("commits/0")
    pipeline.send(event("c", 3))
    pipeline.drain()

    assert ids(pipeline) == ["a", "b", "c"]
    assert [balance.skipped for balance in pipeline.balances] == [0, 2, 0]


def test_table_that_was_dropped_and_made_anew_is_refused(make: MakePipeline) -> None:
    """The new one has the same name and columns, and another id."""
    pipeline = make()
    pipeline.send(event("a", 1))
    pipeline.drain()
    columns = table.read(pipeline.spark, pipeline.topic).select("id", "amount", "note").schema
    drop_table(pipeline.spark, pipeline.topic)
    with pytest.raises(RefusedError, match="is gone since"):
        pipeline.drain()
    table.prepare(pipeline.spark, pipeline.topic, columns)

    with pytest.raises(RefusedError, match="was replaced by another"):
        pipeline.drain()


def test_catalog_that_is_away_at_the_start_is_named(
    make: MakePipeline, rest_catalog: RestCatalog, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a table that is there and of one that is not. Expected: the same; doctor names it too."""
    pipeline = make()
    pipeline.send(event("a", 1))
    rest_catalog.stop()
    try:
        with pytest.raises(NoAnswerError, match=rf"{rest_catalog.url}.*refused.*Nothing was writ"):
            pipeline.drain()
        assert not doctor.examine(pipeline.spark, pipeline.settings)
        assert f"FAIL  table: The catalog at {rest_catalog.url}" in capsys.readouterr().out
    finally:
        rest_catalog.start()
    pipeline.drain()
    pipeline.send(event("b", 2))
    rest_catalog.stop()
    try:
        with pytest.raises(NoAnswerError, match=rest_catalog.url):
            pipeline.drain()
    finally:
        rest_catalog.start()

    pipeline.drain()
    assert ids(pipeline) == ["a", "b"]


def test_catalog_that_never_answers_is_not_waited_for_without_end(
    make: MakePipeline, silent: str
) -> None:
    quick = {"rest.client.socket-timeout-ms": "500"}
    service = {"catalog": "rest", "catalog_uri": silent, "catalog_properties": quick}
    pipeline = make(table=service)
    with pytest.raises(NoAnswerError, match=r"does not answer.*timed out"):
        pipeline.drain()


def test_catalog_that_is_away_between_two_batches_stops_the_query(
    make: MakePipeline, rest_catalog: RestCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is away when a batch is about to begin. Expected: nothing of it is done, nothing lost."""
    pipeline = make()
    pipeline.send(event("a", 1))
    pipeline.drain()
    pipeline.send(event("b", 2))
    check = binding.check

    def check_without_catalog(*arguments: Any) -> None:
        rest_catalog.stop()
        check(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(binding, "check", check_without_catalog)
        with pytest.raises(NoAnswerError, match=r"Nothing was written"):
            pipeline.drain()
    rest_catalog.start()

    pipeline.drain()
    assert ids(pipeline) == ["a", "b"]


def test_catalog_that_goes_away_in_a_batch_is_made_up_for_by_the_next_start(
    make: MakePipeline, rest_catalog: RestCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It answers no more once a batch has begun its write. Expected: each record once."""
    pipeline = make()
    pipeline.send(event("a", 1))
    pipeline.drain()
    pipeline.send(event("b", 2))
    write = sink.write

    def write_without_catalog(*arguments: Any) -> Any:
        rest_catalog.stop()
        return write(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(sink, "write", write_without_catalog)
        with pytest.raises(BatchError):
            pipeline.drain()
    rest_catalog.start()

    pipeline.drain()
    assert ids(pipeline) == ["a", "b"]


def test_commit_whose_answer_is_lost_with_the_catalog_is_found_by_the_next_start(
    make: MakePipeline, rest_catalog: RestCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commit arrives, then the catalog dies before it says so: the batch's outcome is unknown.

    Expected: the next start finds it, each record once.
    """
    pipeline = make()
    pipeline.send(event("a", 1))
    pipeline.drain()
    pipeline.send(event("b", 2))
    commit = commits.commit

    def commit_and_die(*arguments: Any) -> None:
        commit(*arguments)
        rest_catalog.stop()
        catalog.load(pipeline.spark, pipeline.topic)  # raises as a commit without an answer does

    with monkeypatch.context() as patch:
        patch.setattr(commits, "commit", commit_and_die)
        with pytest.raises(BatchError):
            pipeline.drain()
    rest_catalog.start()

    pipeline.drain()
    assert ids(pipeline) == ["a", "b"]
