"""The folders of batches: what readers see that know nothing of Spark, whatever is cut short."""

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest

from orders_pipeline import backfill, batch_folders, compaction, sink, table
from orders_pipeline.errors import RefusedError

from tests.support.pipeline import MakePipeline, Pipeline, event


def seen(pipeline: Pipeline) -> list[str]:
    """The ids that Arrow finds, which reads every file that it lists."""
    found = ds.dataset(pipeline.topic.location, format="parquet", partitioning="hive")
    return sorted(found.to_table(columns=["id"]).column("id").to_pylist())


def folders(pipeline: Pipeline) -> list[Path]:
    return sorted(Path(pipeline.topic.location).glob("ingest_batch=*"))


def ingest_in_batches(pipeline: Pipeline, *keys: str) -> None:
    for number, key in enumerate(keys):
        pipeline.send(event(key, number))
        pipeline.drain()


class Crash(Exception):
    """Ends what is at work where a process might have died."""


def die(*arguments: Any) -> None:
    raise Crash


def test_arrow_reads_each_row_once_and_its_folders_as_a_column(make: MakePipeline) -> None:
    """Written: two batches, in a table with a partition column of its own."""
    pipeline = make(table={"partition_columns": ["amount"]})
    pipeline.send(event("a", 1), event("b", 2, partition=1))
    pipeline.drain()
    pipeline.send(event("c", 1))
    pipeline.drain()
    found = ds.dataset(pipeline.topic.location, format="parquet", partitioning="hive").to_table()
    rows = found.select(["id", "amount", "_offset"]).to_pylist()
    assert sorted(tuple(row.values()) for row in rows) == [("a", 1, 0), ("b", 2, 0), ("c", 1, 1)]
    assert len(Counter(found.column("ingest_batch").to_pylist())) == 2
    assert {row.id: row.amount for row in pipeline.rows()} == {"a": 1, "b": 2, "c": 1}


def test_process_that_another_has_replaced_writes_nothing_more(
    make: MakePipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a batch is written, another process starts on the same table."""
    pipeline = make()
    ingest_in_batches(pipeline, "a")
    pipeline.send(event("b", 2))
    put = batch_folders.put

    def start_another(*arguments: Any, **named: Any) -> None:
        columns = table.read(pipeline.spark, pipeline.topic).schema
        with monkeypatch.context() as patch:
            patch.setattr(table, "WRITER", "another process")
            table.prepare(pipeline.spark, pipeline.topic, columns)
        put(*arguments, **named)

    monkeypatch.setattr(sink, "put", start_another)
    with pytest.raises(RefusedError, match="Another process writes the table"):
        pipeline.drain()

    assert seen(pipeline) == ["a"]


@pytest.mark.parametrize("cut", ["before the move", "before the label"])
def test_fold_that_was_cut_short_is_finished_and_shows_no_row_twice(
    make: MakePipeline, monkeypatch: pytest.MonkeyPatch, cut: str
) -> None:
    """Folded: two of three batches. Expected after the next fold: all rows, in two folders."""
    pipeline = make()
    ingest_in_batches(pipeline, "a", "b", "c")
    with monkeypatch.context() as patch:
        patch.setattr(compaction, "move" if cut == "before the move" else "write_label", die)
        with pytest.raises(Crash):
            compaction.compact(pipeline.spark, pipeline.topic)
    assert max(Counter(seen(pipeline)).values()) == 1

    compaction.compact(pipeline.spark, pipeline.topic)

    assert seen(pipeline) == ["a", "b", "c"]
    assert len(folders(pipeline)) == 2
    assert not Path(f"{pipeline.topic.location}~folding").exists()


def test_stream_goes_on_after_a_fold(make: MakePipeline) -> None:
    """The newest batch is not folded, so that a replay of it is still known."""
    pipeline = make()
    ingest_in_batches(pipeline, "a", "b", "c")
    compaction.compact(pipeline.spark, pipeline.topic)
    newest = table.newest_labels(pipeline.spark, pipeline.topic)

    ingest_in_batches(pipeline, "d")

    assert [label["batch"] for label in newest] == [2]
    assert seen(pipeline) == ["a", "b", "c", "d"]


def test_backfill_that_was_cut_short_adds_what_is_missing(
    make: MakePipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder is removed by mistake; its backfill dies before it is labelled, then runs again."""
    pipeline = make()
    ingest_in_batches(pipeline, "a", "b")
    for file in folders(pipeline)[0].iterdir():
        file.unlink()
    start, end = {0: 0}, {0: 2}
    with monkeypatch.context() as patch:
        patch.setattr(batch_folders, "write_label", die)
        with pytest.raises(Crash):
            backfill.backfill(pipeline.spark, pipeline.topic, start, end)

    backfill.backfill(pipeline.spark, pipeline.topic, start, end)

    assert seen(pipeline) == ["a", "b"]


def test_backfill_is_refused_while_rows_change_places(
    make: MakePipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fold ends between the backfill's look at the table and its write."""
    pipeline = make()
    ingest_in_batches(pipeline, "a", "b", "c")
    put = batch_folders.put

    def fold_first(*arguments: Any, **named: Any) -> None:
        compaction.compact(pipeline.spark, pipeline.topic)
        put(*arguments, **named)

    monkeypatch.setattr(sink, "put", fold_first)
    with pytest.raises(RefusedError, match="compact, was at work"):
        backfill.backfill(pipeline.spark, pipeline.topic, {0: 0}, {0: 3})

    assert seen(pipeline) == ["a", "b", "c"]
