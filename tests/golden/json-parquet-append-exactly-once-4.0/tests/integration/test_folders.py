"""The folders of batches: what readers see that know nothing of Spark, whatever is cut short."""

import json
from collections import Counter
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest
from pyspark.sql import DataFrameWriter
from pyspark.sql import functions as F

from orders_pipeline import (
    backfill,
    batch_folders,
    compaction,
    sink,
    table,
)
from orders_pipeline.errors import BatchError, RefusedError, SettingsError
from orders_pipeline.storage import Folder

from tests.support.pipeline import MakePipeline, Pipeline, event
from tests.support.transforms import transform_to


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


def lose(pipeline: Pipeline, count: int) -> None:
    """Removes the folders of the first batches, as if by mistake."""
    folder = Folder(pipeline.spark, pipeline.topic.location)
    for name in sorted(table.batch_folders(folder))[:count]:
        folder.remove(name)


def after_draft(patch: pytest.MonkeyPatch, act: Callable[[], None]) -> None:
    """Once the next draft is written, does what another process would do then."""
    write = DataFrameWriter.parquet

    def write_then_act(writer: DataFrameWriter, path: str) -> None:
        write(writer, path)
        patch.undo()
        act()

    patch.setattr(DataFrameWriter, "parquet", write_then_act)


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


def test_arrow_reads_a_moment_of_any_year(
    make: MakePipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Written: the ends of what a record may hold. Spark's own default would show Arrow others."""
    pipeline = make()
    moments = [datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999999)]
    first, last = (f"TIMESTAMP'{moment.isoformat()}'" for moment in moments)
    transform_to(monkeypatch, until=F.expr(f"IF(id = 'a', {first}, {last})"))
    pipeline.send(event("a", 1), event("b", 2))
    pipeline.drain()
    found = ds.dataset(pipeline.topic.location, format="parquet", partitioning="hive")
    read = found.to_table(columns=["until"]).column("until").to_pylist()
    assert sorted(moment.replace(tzinfo=None) for moment in read) == moments


def test_partition_column_that_readers_would_not_see_is_refused(make: MakePipeline) -> None:
    pipeline = make(table={"partition_columns": ["_partition"]})
    with pytest.raises(SettingsError, match=r"names '_partition', int in the table"):
        pipeline.drain()


def test_other_partition_columns_are_not_accepted_beside_the_old(make: MakePipeline) -> None:
    """Neither unasked nor by --rebind: no reader would read both."""
    pipeline = make()
    pipeline.send(event("a", 1))
    pipeline.drain()
    pipeline.topic.table.partition_columns.append("amount")
    for rebind in (False, True):
        with pytest.raises(RefusedError, match=r"The table settings of .* table and checkpoint\.$"):
            pipeline.drain(rebind)


def test_backfill_is_refused_when_the_table_has_other_columns(
    make: MakePipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Changed since the stream ran: a column more, then another type for one."""
    pipeline = make()
    ingest_in_batches(pipeline, "a")
    for column, said in {"more": "Start the stream once", "id": "is string; the"}.items():
        with monkeypatch.context() as patch:
            transform_to(patch, **{column: F.lit(1.0)})
            with pytest.raises(RefusedError, match=said):
                backfill.backfill(pipeline.spark, pipeline.topic, {}, {0: 1, 1: 0})
    assert seen(pipeline) == ["a"]


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
    assert not table.folds(pipeline.spark, pipeline.topic).names("")


@pytest.mark.parametrize("other", ["dies", "ends"])
def test_fold_is_refused_when_another_begins_meanwhile(make: MakePipeline, other: str) -> None:
    """The other begins once this one's draft is written; it dies as it reads, or ends.

    Expected: no row lost and none twice; both batches folded by the next fold at the latest.
    """
    pipeline = make()
    ingest_in_batches(pipeline, "a", "b", "c")

    def begin_another() -> None:
        if other == "ends":
            compaction.compact(pipeline.spark, pipeline.topic)
            return
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(table, "read", die)
            with pytest.raises(Crash):
                compaction.compact(pipeline.spark, pipeline.topic)

    with pytest.MonkeyPatch.context() as patch:
        after_draft(patch, begin_another)
        with pytest.raises(RefusedError, match="Another compact"):
            compaction.compact(pipeline.spark, pipeline.topic)
    assert seen(pipeline) == ["a", "b", "c"]

    compaction.compact(pipeline.spark, pipeline.topic)

    assert seen(pipeline) == ["a", "b", "c"]
    assert len(folders(pipeline)) == 2


def test_fold_removes_nothing_when_its_files_are_gone(make: MakePipeline) -> None:
    """Noted: a fold of two batches that was cut short, and of which somebody removed the draft."""
    pipeline = make()
    ingest_in_batches(pipeline, "a", "b", "c")
    folder = Folder(pipeline.spark, pipeline.topic.location)
    old = sorted(table.batch_folders(folder))[:2]
    folder.write(table.FOLD, json.dumps({"name": table.dated("folded"), "old": old}))

    with pytest.raises(RefusedError, match="files are gone"):
        compaction.compact(pipeline.spark, pipeline.topic)

    assert seen(pipeline) == ["a", "b", "c"]


def test_fold_leaves_out_a_batch_that_is_labelled_meanwhile(make: MakePipeline) -> None:
    """A batch is written just after the fold has asked for the newest one; then comes another."""
    pipeline = make()
    ingest_in_batches(pipeline, "a", "b", "c")
    newest_labels = table.newest_labels

    with pytest.MonkeyPatch.context() as patch:

        def look_then_ingest(*arguments: Any) -> list[dict[str, Any]]:
            patch.undo()
            labels = newest_labels(*arguments)
            ingest_in_batches(pipeline, "d")
            return labels

        patch.setattr(table, "newest_labels", look_then_ingest)
        compaction.compact(pipeline.spark, pipeline.topic)
    newest = table.newest_labels(pipeline.spark, pipeline.topic)
    ingest_in_batches(pipeline, "e")

    assert [label["batch"] for label in newest] == [3]
    assert seen(pipeline) == ["a", "b", "c", "d", "e"]


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
    lose(pipeline, 1)
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


def test_backfill_is_whole_when_the_stream_starts_meanwhile(make: MakePipeline) -> None:
    """The stream starts between the backfill's files and their move into the table."""
    pipeline = make()
    ingest_in_batches(pipeline, "a", "b")
    lose(pipeline, 1)

    with pytest.MonkeyPatch.context() as patch:
        after_draft(patch, pipeline.drain)
        backfill.backfill(pipeline.spark, pipeline.topic, {0: 0}, {0: 2})

    assert seen(pipeline) == ["a", "b"]


def test_start_removes_drafts_but_not_those_of_a_running_command(make: MakePipeline) -> None:
    """Left over: a draft of a batch, and those of two backfills, one from long ago."""
    pipeline = make()
    ingest_in_batches(pipeline, "a")
    drafts, running = table.drafts(pipeline.spark, pipeline.topic), table.dated("backfill")
    for draft in ("pipeline.0.1", "backfill.0-1", running):
        drafts.write(f"{draft}/rows/part.parquet", "rows")

    pipeline.drain()

    assert drafts.names("") == [running]


def test_backfill_fails_when_a_part_of_its_files_was_removed(make: MakePipeline) -> None:
    """Its draft is removed while Spark writes, which leaves the file of a later task.

    Expected: nothing in the table; all of it once the backfill runs again.
    """
    pipeline = make(table={"partition_columns": ["amount"]})
    ingest_in_batches(pipeline, "a", "b", "c")
    lose(pipeline, 2)
    drafts = table.drafts(pipeline.spark, pipeline.topic)
    aside = Folder(pipeline.spark, f"{pipeline.topic.location}~aside")
    start, end = {0: 0}, {0: 3}

    def leave_one_file() -> None:
        first, _ = (name for name in drafts.files("") if name.endswith(".parquet"))
        aside.take(drafts, first, "kept")
        drafts.remove("")
        drafts.take(aside, "kept", first)

    with pytest.MonkeyPatch.context() as patch:
        after_draft(patch, leave_one_file)
        with pytest.raises(BatchError, match="Run the same command again"):
            backfill.backfill(pipeline.spark, pipeline.topic, start, end)
    assert seen(pipeline) == ["c"]

    backfill.backfill(pipeline.spark, pipeline.topic, start, end)

    assert seen(pipeline) == ["a", "b", "c"]


def test_backfill_fails_when_a_file_is_gone_before_its_move(make: MakePipeline) -> None:
    """Removed: the files, once they are listed. Then the backfill runs again."""
    pipeline = make()
    ingest_in_batches(pipeline, "a", "b")
    lose(pipeline, 1)
    start, end, files = {0: 0}, {0: 2}, Folder.files

    def list_then_remove(folder: Folder, name: str) -> list[str]:
        found = files(folder, name)
        folder.remove(name)
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Folder, "files", list_then_remove)
        with pytest.raises(BatchError, match="Run the same command again"):
            backfill.backfill(pipeline.spark, pipeline.topic, start, end)

    backfill.backfill(pipeline.spark, pipeline.topic, start, end)

    assert seen(pipeline) == ["a", "b"]
