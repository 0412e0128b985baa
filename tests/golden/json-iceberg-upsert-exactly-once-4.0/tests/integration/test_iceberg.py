"""What others do to the table meanwhile: expire, rewrite, roll back, alter, drop, write.

Once with a folder for a catalog, once with a REST catalog.
"""

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import functions as F

from orders_pipeline import (
    backfill,
    binding,
    catalog,
    commits,
    compaction,
    publishing,
    sink,
    table,
)
from orders_pipeline.checkpoint import Checkpoint
from orders_pipeline.errors import BatchError, RefusedError, SettingsError

from tests.support.pipeline import DDL, MakePipeline, Pipeline, event
from tests.support.tables import data_files, drop_table
from tests.support.topics import wait_until


@pytest.fixture(params=["hadoop", "rest"])
def make(request: pytest.FixtureRequest, make: MakePipeline) -> MakePipeline:
    """Makes a pipeline whose tables that catalog knows."""
    if request.param == "hadoop":
        return make
    service = request.getfixturevalue("rest_catalog").settings

    def make_with_service(**settings: Any) -> Pipeline:
        return make(**settings | {"table": service | settings.get("table", {})})

    return make_with_service


def ids(pipeline: Pipeline) -> list[str]:
    return sorted(row.id for row in pipeline.rows())


def ingest_in_batches(pipeline: Pipeline, *keys: str) -> None:
    for number, key in enumerate(keys):
        pipeline.send(event(key, number))
        pipeline.drain()


def name_of(pipeline: Pipeline) -> str:
    return catalog.full_name(pipeline.spark, pipeline.topic)


def operations(pipeline: Pipeline) -> list[str]:
    found = pipeline.spark.table(f"{name_of(pipeline)}.snapshots").orderBy("committed_at")
    return [row.operation for row in found.collect()]


def forget_newest_commit(pipeline: Pipeline, number: int) -> None:
    """Spark has not noted the batch as done, and hands its records over again at the next start."""
    checkpoint = Checkpoint(pipeline.spark, pipeline.topic.checkpoint, pipeline.topic.name)
    checkpoint.files.delete(f"commits/{number}")


def write_as_another(pipeline: Pipeline, key: str) -> None:
    """Another program adds a row to the table, without a word about batches."""
    other = table.read(pipeline.spark, pipeline.topic).limit(1)
    other = other.withColumns({"id": F.lit(key), "_topic": F.lit("another's")})
    table.fitted(other, pipeline.topic).writeTo(name_of(pipeline)).append()


def make_table_as_another(pipeline: Pipeline, properties: str = "'by' = 'another'") -> None:
    """The table is there before the pipeline: the records' columns alone, made another's way."""
    pipeline.spark.sql(
        f"CREATE NAMESPACE IF NOT EXISTS {catalog.namespace(pipeline.spark, pipeline.topic)}"
    )
    pipeline.spark.sql(
        f"CREATE TABLE {name_of(pipeline)} (id STRING, amount INT, note STRING) USING iceberg "
        f"TBLPROPERTIES ({properties})"
    )


def add_as_another(pipeline: Pipeline, *keys: str) -> None:
    """Rows of these keys, without a word of where they come from."""
    rows = pipeline.spark.createDataFrame([(key, 0) for key in keys], "id STRING, amount INT")
    table.fitted(rows, pipeline.topic).writeTo(name_of(pipeline)).append()


def fold_and_expire_all(pipeline: Pipeline) -> None:
    """As another program might, which knows nothing of batches."""
    compaction.compact(pipeline.spark, pipeline.topic, retention_hours=168)
    expire_all(pipeline)


def expire_all(pipeline: Pipeline) -> None:
    """All snapshots but the newest."""
    given = "older_than => TIMESTAMP '9999-01-01 00:00:00', retain_last => 1"
    catalog.call(pipeline.spark, pipeline.topic, "expire_snapshots", given)


def as_another(action: Callable[[], Any]) -> None:
    """Does it in a thread of its own: what a batch's thread commits has the batch's label."""
    with ThreadPoolExecutor(1) as another:
        another.submit(action).result()


def meanwhile(monkeypatch: pytest.MonkeyPatch, action: Callable[[], Any]) -> None:
    """Does ``action``, once, when a batch has looked at the table and not yet written to it."""
    fitted = table.fitted

    def act_first(*arguments: Any) -> Any:
        monkeypatch.setattr(table, "fitted", fitted)
        as_another(action)
        return fitted(*arguments)

    monkeypatch.setattr(table, "fitted", act_first)


def lose_the_answer(pipeline: Pipeline, patch: pytest.MonkeyPatch, arrived: bool) -> None:
    """No answer comes to the next batch's commit, which ``arrived`` or did not."""
    commit = commits.commit

    def commit_and_fail(*given: Any) -> None:
        patch.setattr(commits, "commit", commit)
        if arrived:
            commit(*given)
        jvm: Any = pipeline.spark._jvm
        cause = jvm.java.lang.RuntimeException("no answer")
        lost = jvm.org.apache.iceberg.exceptions.CommitStateUnknownException(cause)
        raise Py4JJavaError("Lost", lost)

    patch.setattr(commits, "commit", commit_and_fail)


def before_it_is_published(patch: pytest.MonkeyPatch, action: Callable[[], Any]) -> list[Any]:
    """Does ``action``, once, when a batch is staged and has looked for its label the last time.

    Given is a list that will hold what each look for a label finds.
    """
    label_in = table.label_in
    looks: list[Any] = []

    def look_and_act(*given: Any) -> Any:
        looks.append(found := label_in(*given))
        if len(looks) == 3:  # the first two are at the start and before the batch
            as_another(action)
        return found

    patch.setattr(table, "label_in", look_and_act)
    return looks


def test_replayed_batch_counts_once_when_others_wrote_since(make: MakePipeline) -> None:
    """After the batch: another's row, a fold of all files, and all that may expire does."""
    pipeline = make()
    ingest_in_batches(pipeline, "a", "b")
    write_as_another(pipeline, "x")
    compaction.compact(pipeline.spark, pipeline.topic, retention_hours=0)
    assert operations(pipeline)[1:] == ["append", "replace"]
    forget_newest_commit(pipeline, 1)

    pipeline.drain()

    assert ids(pipeline) == ["a", "b", "x"]
    assert (pipeline.balances[-1].written, pipeline.balances[-1].skipped) == (0, 1)


def test_replayed_batch_counts_once_when_every_label_has_expired(make: MakePipeline) -> None:
    """After the batch: a fold, and by another's hand every snapshot expires but the newest.

    The batch after it is new, and is written; from then on labels tell again.
    """
    pipeline = make()
    ingest_in_batches(pipeline, "a", "b")
    fold_and_expire_all(pipeline)
    assert operations(pipeline) == ["replace"]
    assert [commit.label for commit in table.commits(pipeline.spark, pipeline.topic)] == [None]
    forget_newest_commit(pipeline, 1)

    pipeline.drain()
    ingest_in_batches(pipeline, "c")

    assert ids(pipeline) == ["a", "b", "c"]
    assert [balance.written for balance in pipeline.balances] == [1, 1, 0, 1]
    assert all(balance.holds for balance in pipeline.balances)


def test_batch_that_another_process_wrote_meanwhile_is_not_added(
    make: MakePipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process on the checkpoint writes a batch between this one's look and its write."""
    pipeline = make()
    ingest_in_batches(pipeline, "a")
    pipeline.send(event("b", 2))
    write = sink.write

    def come_second(*given: Any) -> Any:
        write(*given)
        return write(*given)

    with monkeypatch.context() as patch:
        patch.setattr(sink, "write", come_second)
        with pytest.raises(BatchError, match="came into the table"):
            pipeline.drain()
    assert ids(pipeline) == ["a", "b"]
    pipeline.drain()
    assert ids(pipeline) == ["a", "b"]
    assert (pipeline.balances[-1].written, pipeline.balances[-1].skipped) == (0, 1)


def test_batch_is_not_published_when_another_process_was_quicker(
    make: MakePipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same, once this one has staged the batch and looked for the last time."""
    pipeline = make()
    pipeline.send(event("a", 1))
    write = sink.write

    def note_and_write(*given: Any) -> Any:
        written.extend(given)
        return write(*given)

    written: list[Any] = []
    with monkeypatch.context() as patch:
        patch.setattr(sink, "write", note_and_write)
        looks = before_it_is_published(patch, lambda: write(*written))
        with pytest.raises(BatchError, match="came into the table"):
            pipeline.drain()
    assert looks[:3] == [None, None, None]
    pipeline.drain()
    assert ids(pipeline) == ["a"]


def test_replayed_batch_counts_once_when_it_was_published_after_anothers_commit(
    make: MakePipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another program adds a row when the batch is staged, before it is published."""
    pipeline = make()
    ingest_in_batches(pipeline, "a")
    pipeline.send(event("b", 2))

    with monkeypatch.context() as patch:
        before_it_is_published(patch, lambda: write_as_another(pipeline, "x"))
        pipeline.drain()
    assert ids(pipeline) == ["a", "b", "x"]
    forget_newest_commit(pipeline, 1)

    pipeline.drain()

    assert ids(pipeline) == ["a", "b", "x"]
    assert [balance.written for balance in pipeline.balances] == [1, 1, 0]
    assert all(balance.holds for balance in pipeline.balances)


def test_batch_counts_once_when_the_answer_to_its_publication_on_anothers_commit_is_lost(
    make: MakePipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another adds a row when the batch is staged; no answer comes to what publishes it then."""
    pipeline = make()
    ingest_in_batches(pipeline, "a")
    pipeline.send(event("b", 2))
    lose_the_answer(pipeline, monkeypatch, arrived=True)
    before_it_is_published(monkeypatch, lambda: write_as_another(pipeline, "x"))

    pipeline.drain()

    assert ids(pipeline) == ["a", "b", "x"]
    assert [balance.written for balance in pipeline.balances] == [1, 1]


def test_table_that_is_rolled_back_under_the_run_takes_no_further_batch(
    make: MakePipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rolled back by two batches before the next begins, and what was rolled back expires.

    Expected: a refusal by that batch, and by the next start.
    """
    pipeline = make()
    ingest_in_batches(pipeline, "a")
    first = table.newest_snapshot(catalog.load(pipeline.spark, pipeline.topic))
    ingest_in_batches(pipeline, "b", "c")
    pipeline.send(event("d", 3))

    check = binding.check

    def roll_back_and_check(*given: Any) -> None:
        to_first = f"snapshot_id => {first}"
        catalog.call(pipeline.spark, pipeline.topic, "rollback_to_snapshot", to_first)
        expire_all(pipeline)
        check(*given)

    with monkeypatch.context() as patch:
        patch.setattr(binding, "check", roll_back_and_check)
        with pytest.raises(RefusedError, match=r"was set back under this run: .* 0, .* to be 3"):
            pipeline.drain()
    assert ids(pipeline) == ["a"]
    with pytest.raises(RefusedError, match="was set back"):
        pipeline.drain()


def test_batch_publishes_what_it_has_staged_itself(
    make: MakePipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process on the checkpoint stages the batch too, a moment later, with another row."""
    pipeline = make()
    ingest_in_batches(pipeline, "a")
    pipeline.send(event("b", 2))
    check_absent = publishing.check_absent

    def stage_too(held: Any, *given: Any) -> None:
        monkeypatch.setattr(publishing, "check_absent", check_absent)
        staged = next(reversed(held.snapshots())).summary().get("wap.id")
        pipeline.spark.conf.set("spark.wap.id", staged)
        try:
            as_another(lambda: write_as_another(pipeline, "x"))
        finally:
            pipeline.spark.conf.unset("spark.wap.id")
        held.refresh()
        check_absent(held, *given)

    monkeypatch.setattr(publishing, "check_absent", stage_too)

    pipeline.drain()

    assert ids(pipeline) == ["a", "b"]
    assert len(operations(pipeline)) == 3  # the other's is there, and no part of the table
    assert pipeline.balances[-1].holds


def test_staged_batch_that_another_expires_is_staged_again(
    make: MakePipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is staged is no part of the table, so another's expiry takes it."""
    pipeline = make()
    ingest_in_batches(pipeline, "a")
    pipeline.send(event("b", 2))
    check_absent = publishing.check_absent

    def expire_first(held: Any, *given: Any) -> None:
        monkeypatch.setattr(publishing, "check_absent", check_absent)
        as_another(lambda: expire_all(pipeline))
        held.refresh()
        check_absent(held, *given)

    monkeypatch.setattr(publishing, "check_absent", expire_first)

    pipeline.drain()

    assert ids(pipeline) == ["a", "b"]
    assert pipeline.balances[-1].holds


@pytest.mark.parametrize("arrived", [True, False])
def test_commit_without_an_answer_is_looked_for_in_the_table(
    make: MakePipeline, monkeypatch: pytest.MonkeyPatch, arrived: bool
) -> None:
    """The catalog's answer is lost: of a commit that arrived, and of one that did not."""
    pipeline = make()
    ingest_in_batches(pipeline, "a")
    pipeline.send(event("b", 2))
    lose_the_answer(pipeline, monkeypatch, arrived)
    if arrived:
        pipeline.drain()
    else:
        with pytest.raises(BatchError, match="no answer"):
            pipeline.drain()
        assert ids(pipeline) == ["a"]
        pipeline.drain()
    assert ids(pipeline) == ["a", "b"]


def test_rewrite_of_the_files_in_hand_loses_nothing(
    make: MakePipeline, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """While rows are being written on what the table was, all of its files are folded into one."""
    pipeline = make()
    ingest_in_batches(pipeline, "a", "b", "c")
    begun, folded = tmp_path / "begun", tmp_path / "folded"

    def wait(offset: int) -> int:
        begun.touch()
        for _ in range(600):
            if folded.exists():
                return offset
            threading.Event().wait(0.1)
        raise TimeoutError

    later = F.udf(wait, "bigint")(F.col("_offset") + 10)
    rows = pipeline.spark.createDataFrame(pipeline.rows(), pipeline_schema(pipeline))
    rows = rows.repartition(1).withColumns({"amount": F.lit(7), "_offset": later})
    rows = rows.withColumn("_deleted", F.col("id") == "b")
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(sink.fill, rows, pipeline.topic)
        wait_until(lambda: begun.exists() or done.done(), 60, "the write begins")
        compaction.compact(pipeline.spark, pipeline.topic, retention_hours=168)
        folded.touch()
        written = done.result()

    state = sorted((row.id, row.amount) for row in pipeline.rows())
    assert state == [("a", 7), ("c", 7)]
    assert (written.written, written.deleted, written.stale) == (2, 1, 0)
    assert "met another writer" in caplog.text


def pipeline_schema(pipeline: Pipeline) -> Any:
    return table.read(pipeline.spark, pipeline.topic).schema


def test_counts_are_right_when_another_changes_the_rows_in_hand(
    make: MakePipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch deletes a and changes b; another deletes a, and b too, before it comes to that."""
    pipeline = make()
    pipeline.send(event("a", 1), event("b", 1), event("c", 1))
    pipeline.drain()
    pipeline.send((b"a", None, [], 0), event("b", 2), event("d", 1))
    delete = f"DELETE FROM {name_of(pipeline)} WHERE id IN ('a', 'b')"  # noqa: S608
    meanwhile(monkeypatch, lambda: pipeline.spark.sql(delete))

    pipeline.drain()

    assert ids(pipeline) == ["b", "c", "d"]
    balance = pipeline.balances[-1]
    assert (balance.written, balance.deleted, balance.stale) == (2, 0, 1)
    assert balance.holds


@pytest.mark.parametrize("newest_by", [None, "updated_at"])
def test_rows_that_say_not_of_which_record_they_are_give_way_to_any_record(
    make: MakePipeline, newest_by: str | None
) -> None:
    """A table of another's with rows: a record changes one, a delete takes one; one finds none."""
    pipeline = make(table={"newest_by": newest_by})
    pipeline.write_schema("id STRING NOT NULL, amount INT NOT NULL, updated_at TIMESTAMP")
    make_table_as_another(pipeline)
    add_as_another(pipeline, "a", "b", "c")
    pipeline.send((b"a", None, [], 0), event("b", 2), (b"x", None, [], 0))

    pipeline.drain()

    assert {row.id: row.amount for row in pipeline.rows()} == {"b": 2, "c": 0}
    balance = pipeline.balances[-1]
    assert (balance.written, balance.deleted, balance.stale) == (1, 1, 1)
    assert balance.holds
    pipeline.send((b"c", None, [], 0))
    pipeline.drain()
    assert ids(pipeline) == ["b"]


def test_key_that_the_table_holds_twice_counts_once(make: MakePipeline) -> None:
    """Another adds a second row of each key. Sent: a newer record, a delete, an older record.

    Expected: both rows of the key change, both go, neither changes.
    """
    pipeline = make()
    pipeline.send(event("a", 1), event("b", 1), event("c", 1))
    pipeline.drain()
    add_as_another(pipeline, "a", "b", "c")
    older = (*event("c", 9, partition=1), 1_000)
    pipeline.send(event("a", 2), (b"b", None, [], 0), older)

    pipeline.drain()

    state = sorted((row.id, row.amount) for row in pipeline.rows())
    assert state == [("a", 2), ("a", 2), ("c", 0), ("c", 1)]
    balance = pipeline.balances[-1]
    assert (balance.written, balance.deleted, balance.stale) == (1, 1, 1)
    assert balance.holds


def test_backfill_without_the_table_is_refused(make: MakePipeline) -> None:
    pipeline = make()
    ingest_in_batches(pipeline, "a")
    drop_table(pipeline.spark, pipeline.topic)
    with pytest.raises(RefusedError, match="is gone since"):
        backfill.backfill(pipeline.spark, pipeline.topic, {0: 0, 1: 0}, None)


def test_table_of_the_first_format_is_refused(make: MakePipeline) -> None:
    """In it no row can be deleted beside the files that are there."""
    pipeline = make()
    make_table_as_another(pipeline, "'format-version' = '1'")
    with pytest.raises(RefusedError, match="format version 1"):
        pipeline.drain()


@pytest.mark.parametrize("mode", ["merge-on-read", "copy-on-write"])
def test_key_is_there_once_when_another_adds_it_before_the_batch_is_published(
    make: MakePipeline, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    """A table of another's, with Iceberg's own way to merge; the batch has a new key alone.

    Expected: the way of the pipeline's own tables; and where another changes it back in the
    batch, the same.
    """
    pipeline = make()
    make_table_as_another(pipeline, "'write.merge.isolation-level' = 'snapshot'")
    add_as_another(pipeline, "x")
    table.prepare(pipeline.spark, pipeline.topic, pipeline_schema(pipeline))
    properties = catalog.load(pipeline.spark, pipeline.topic).properties()
    assert {name: properties.get(name) for name in table.MERGES} == table.MERGES
    pipeline.send(event("a", 1))
    change = f"ALTER TABLE {name_of(pipeline)} SET TBLPROPERTIES ('write.merge.mode' = '{mode}')"
    meanwhile(monkeypatch, lambda: pipeline.spark.sql(change))
    before_it_is_published(monkeypatch, lambda: add_as_another(pipeline, "a"))

    pipeline.drain()

    assert {row.id: row.amount for row in pipeline.rows()} == {"a": 1, "x": 0}
    assert len(ids(pipeline)) == 2
    assert pipeline.balances[-1].holds


def test_table_is_loaded_a_few_times_for_a_batch(
    make: MakePipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each time is a call to the catalog: to look at the table, or to change it."""
    pipeline = make()
    ingest_in_batches(pipeline, "a")
    loads: list[str] = []
    load = catalog.load
    check = binding.check

    def count(*given: Any) -> Any:
        loads.append("load")
        return load(*given)

    def begin_to_count(*given: Any) -> None:
        monkeypatch.setattr(catalog, "load", count)
        check(*given)

    monkeypatch.setattr(binding, "check", begin_to_count)
    pipeline.send(event("b", 2))

    pipeline.drain()

    assert ids(pipeline) == ["a", "b"]
    assert 0 < len(loads) <= 4


def test_batch_goes_on_when_another_writes_at_the_same_time(
    make: MakePipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another's commit comes between a batch's look at the table and its own."""
    pipeline = make()
    ingest_in_batches(pipeline, "a")
    pipeline.send(event("b", 2))
    meanwhile(monkeypatch, lambda: write_as_another(pipeline, "x"))

    pipeline.drain()

    assert ids(pipeline) == ["a", "b", "x"]
    assert pipeline.balances[-1].holds


def test_commit_that_conflicts_each_time_is_given_up(
    make: MakePipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each attempt builds on a snapshot that the table has not, as if another took it away."""
    pipeline = make()
    ingest_in_batches(pipeline, "a")
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    attempts = list[Any]()

    def build_on_what_is_gone(held: Any) -> None:
        attempts.append(held)
        held.manageSnapshots().setCurrentSnapshot(1).commit()

    with pytest.raises(Py4JJavaError, match="unknown snapshot id: 1"):
        commits.commit({}, build_on_what_is_gone, pipeline.topic, pipeline.spark)

    assert len(attempts) == commits.ATTEMPTS


def test_table_that_is_dropped_in_a_batch_ends_it(
    make: MakePipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Expected: the batch fails, and the next start is refused."""
    pipeline = make()
    ingest_in_batches(pipeline, "a")
    pipeline.send(event("b", 2))
    meanwhile(monkeypatch, lambda: drop_table(pipeline.spark, pipeline.topic))

    with pytest.raises(BatchError):
        pipeline.drain()
    with pytest.raises(RefusedError, match="is gone since"):
        pipeline.drain()


def test_table_that_is_dropped_before_the_write_of_a_batch_ends_it(
    make: MakePipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Expected: a refusal by that batch, and by the next start."""
    pipeline = make()
    ingest_in_batches(pipeline, "a")
    pipeline.send(event("b", 2))
    write = sink.write

    def drop_and_write(*given: Any) -> Any:
        drop_table(pipeline.spark, pipeline.topic)
        return write(*given)

    monkeypatch.setattr(sink, "write", drop_and_write)

    with pytest.raises(RefusedError, match="is gone, or is not yet there"):
        pipeline.drain()
    with pytest.raises(RefusedError, match="is gone since"):
        pipeline.drain()


def test_backfill_before_the_run_that_adds_a_column_names_that_run(make: MakePipeline) -> None:
    """The schema has a new field. Backfilled: before a start, and after it."""
    pipeline = make()
    ingest_in_batches(pipeline, "a")
    pipeline.write_schema(f"{DDL}, more STRING")
    with pytest.raises(RefusedError, match=r"lacks the columns \['more'\].*not yet added.*`run`"):
        backfill.backfill(pipeline.spark, pipeline.topic, {0: 0, 1: 0}, None)

    pipeline.drain()
    backfill.backfill(pipeline.spark, pipeline.topic, {0: 0, 1: 0}, None)

    assert ids(pipeline) == ["a"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("ADD COLUMNS (another STRING)", None),
        ("DROP COLUMN note", "lacks the columns \\['note'\\]"),
    ],
)
def test_schema_that_is_altered_in_a_batch_costs_no_field(
    make: MakePipeline, monkeypatch: pytest.MonkeyPatch, change: str, said: str | None
) -> None:
    """A column more is null. One less is refused, and nothing of the batch is written."""
    pipeline = make()
    ingest_in_batches(pipeline, "a")
    pipeline.send(event("b", 2, note="kept"))
    alter = f"ALTER TABLE {name_of(pipeline)} {change}"
    meanwhile(monkeypatch, lambda: pipeline.spark.sql(alter))

    if said:
        with pytest.raises(RefusedError, match=said):
            pipeline.drain()
        assert ids(pipeline) == ["a"]
    pipeline.drain()

    notes = {row.id: row.note for row in pipeline.rows()}
    assert notes == {"a": None, "b": "kept"}


def test_partitions_are_hidden(make: MakePipeline) -> None:
    """Asked for: transforms of columns. Expected: files apart, and no column but the record's."""
    entries = ["days(_timestamp)", "bucket(4, id)", "_partition"]
    pipeline = make(table={"partition_columns": entries})
    pipeline.send(event("a", 1), event("b", 2, partition=1))
    pipeline.drain()

    assert ids(pipeline) == ["a", "b"]
    fields = ["_timestamp_day", "id_bucket", "_kafka_partition"]
    found = pipeline.spark.table(f"{name_of(pipeline)}.partitions").schema["partition"]
    assert found.dataType.fieldNames() == fields  # type: ignore[attr-defined]
    assert not set(fields[:2]) & set(pipeline.rows()[0].asDict())
    assert len(data_files(pipeline.spark, pipeline.topic)) == 2


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("weeks(_timestamp)", "neither a column nor a transform"),
        ("bucket(id)", "neither a column nor a transform"),
        ("days(amount)", "which is int in the table of"),
        ("days(never)", "names 'never', which the table of"),
    ],
)
def test_partition_that_no_table_can_have_is_refused(
    make: MakePipeline, entry: str, said: str
) -> None:
    pipeline = make(table={"partition_columns": [entry]})
    with pytest.raises(SettingsError, match=said):
        pipeline.drain()
    assert not table.exists(pipeline.spark, pipeline.topic)


def test_fields_called_as_icebergs_own_columns_arrive(make: MakePipeline) -> None:
    """Sent: fields called as columns that every Iceberg table has, and as the stored partition."""
    pipeline = make()
    pipeline.write_schema("id STRING NOT NULL, _file STRING, _pos INT, _kafka_partition INT")
    pipeline.send((b"a", {"id": "a", "_file": "f", "_pos": 7, "_kafka_partition": 8}, [], 1))

    pipeline.drain()

    [row] = pipeline.rows()
    assert (row._file_, row._pos_, row._kafka_partition_, row._partition) == ("f", 7, 8, 1)


def test_small_integers_are_kept_as_int(make: MakePipeline) -> None:
    """An Iceberg table has no integer of less than 32 bits; the next start finds its columns."""
    pipeline = make()
    pipeline.write_schema("id STRING NOT NULL, small SMALLINT, list ARRAY<TINYINT>")
    for key in "ab":
        pipeline.send((key.encode(), {"id": key, "small": 7, "list": [1]}, [], 0))
        pipeline.drain()

    assert [(row.small, row.list) for row in pipeline.rows()] == [(7, [1]), (7, [1])]
