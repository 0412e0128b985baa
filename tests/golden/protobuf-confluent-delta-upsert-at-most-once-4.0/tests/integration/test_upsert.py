"""Of a key's records the newest wins, and a null value deletes."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from orders_pipeline import backfill, columns, sink
from orders_pipeline import pipeline as steps
from orders_pipeline.batch import Written
from orders_pipeline.errors import BatchError, SettingsError
from orders_pipeline.settings import Topic

from tests.support.pipeline import DDL, MakePipeline, Pipeline, bad, event
from tests.support.records import LACKS_A_FIELD
from tests.support.topics import add_partitions


def delete(key: str | None, partition: int = 0) -> tuple[object, ...]:
    return (None if key is None else key.encode(), None, [], partition)


def state(pipeline: Pipeline) -> dict[str, int | None]:
    rows = pipeline.rows()
    assert len(rows) == len({row.id for row in rows})
    return {row.id: row.amount for row in rows}


def test_newest_record_of_a_key_wins_in_a_batch_and_across_batches(make: MakePipeline) -> None:
    """Sent: one key three times to an empty table, then twice more beside a new one."""
    pipeline = make()
    pipeline.send(event("a", 1), event("a", 2), event("a", 3))
    pipeline.drain()
    assert state(pipeline) == {"a": 3}
    pipeline.send(event("a", 4), event("b", 1), event("a", 5))
    pipeline.drain()

    assert state(pipeline) == {"a": 5, "b": 1}
    assert [balance.deduplicated for balance in pipeline.balances] == [2, 1]
    assert all(balance.holds for balance in pipeline.balances)


def test_key_that_the_transform_makes_null_stops_the_query(
    make: MakePipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sent: two records, of one of which transform.py takes the key away. Expected: no row."""
    pipeline = make()
    without = F.nullif(F.col("id"), F.lit("b"))
    monkeypatch.setattr(steps, "transform", lambda topic, rows: rows.withColumn("id", without))
    pipeline.send(event("a", 1), event("b", 2))

    with pytest.raises(BatchError, match="null in the key column id"):
        pipeline.drain()
    assert state(pipeline) == {}


def test_key_that_the_transform_spells_otherwise_is_refused(
    make: MakePipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a sink looks up of a key, it looks up by its name."""
    monkeypatch.setattr(
        columns, "transform", lambda topic, rows: rows.withColumn("ID", F.upper("id"))
    )
    with pytest.raises(SettingsError, match=r"names 'id', which .* its columns are: .*\bID\b"):
        make().drain()


def test_empty_text_in_a_key_column_by_which_the_table_is_partitioned_is_one_key(
    make: MakePipeline,
) -> None:
    """Sent: the key twice, in a batch each. Delta keeps the empty text of such a column as null."""
    pipeline = make(table={"partition_columns": ["id"]})
    for amount in (1, 2):
        pipeline.send(event("", amount), event("b", amount))
        pipeline.drain()

    assert state(pipeline) == {None: 2, "b": 2}


def test_null_value_deletes_the_row_of_its_key(make: MakePipeline) -> None:
    """Sent: rows, then deletes of one that is there, of one that is not, and of none at all."""
    pipeline = make()
    pipeline.send(event("a", 1), event("b", 2))
    pipeline.drain()
    pipeline.send(delete("a"), delete("never-there"), delete(None), event("c", 3), delete("c"))
    pipeline.drain()

    assert state(pipeline) == {"b": 2}
    balance = pipeline.balances[1]
    assert (balance.deleted, balance.stale, balance.deduplicated) == (1, 2, 1)
    assert balance.holds
    [letter] = pipeline.letters()
    assert letter.headers["__connect.errors.exception.class.name"] == b"null_key"


def test_null_key_column_is_a_dead_letter(make: MakePipeline) -> None:
    """Sent twice: a record whose key column is null; NULL matches nothing, so it would repeat."""
    pipeline = make()
    for _ in range(2):
        pipeline.send((b"x", {"id": None, "amount": 1}, [], 0))
        pipeline.drain()

    assert state(pipeline) == {}
    assert len(pipeline.letters()) == 2


def test_older_record_changes_nothing_when_a_key_moved_between_partitions(
    make: MakePipeline,
) -> None:
    """Across partitions Kafka's timestamp decides, whatever the offsets."""
    pipeline = make()
    add_partitions(pipeline.bootstrap_servers, pipeline.topic.name, 3)
    newer = (*event("a", 2, partition=2), 2_000)
    older = (*event("a", 1, partition=0), 1_000)
    pipeline.send(newer)
    pipeline.drain()
    pipeline.send(older)
    pipeline.drain()

    assert state(pipeline) == {"a": 2}
    assert pipeline.balances[1].stale == 1


def test_column_of_the_records_own_orders_them_when_the_settings_name_one(
    make: MakePipeline,
) -> None:
    """Sent: the newer state first, by the records' own clock."""
    pipeline = make(table={"newest_by": "changed_at"})
    pipeline.write_schema(f"{DDL}, changed_at TIMESTAMP NOT NULL")
    pipeline.send(
        event("a", 2, changed_at=datetime(2026, 1, 2, tzinfo=UTC)),
        event("a", 1, changed_at=datetime(2026, 1, 1, tzinfo=UTC)),
    )
    pipeline.drain()
    pipeline.send(event("a", 0, changed_at=datetime(2025, 12, 31, tzinfo=UTC)))
    pipeline.drain()

    assert state(pipeline) == {"a": 2}


def test_backfill_does_not_bring_back_what_was_deleted_later(make: MakePipeline) -> None:
    """Sent: a record, then its delete. Backfilled: just the range of the record."""
    pipeline = make()
    pipeline.send(event("a", 1), event("b", 2), delete("a"))
    pipeline.drain()

    backfill.backfill(pipeline.spark, pipeline.topic, {0: 0, 1: 0}, {0: 1, 1: 0})

    assert state(pipeline) == {"b": 2}


def test_row_that_the_stream_deletes_during_a_backfill_stays_deleted(
    make: MakePipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sent while a backfill has the old row, not yet written: its delete, which is merged first."""
    pipeline = make()
    pipeline.send(event("a", 1), event("b", 2))
    pipeline.drain()
    fill = sink.fill

    def fill_late(rows: DataFrame, topic: Topic) -> Written:
        monkeypatch.setattr(sink, "fill", fill)
        pipeline.send(delete("a"), event("c", 3), delete("c"), event("c", 4))
        pipeline.drain()
        return fill(rows, topic)

    monkeypatch.setattr(sink, "fill", fill_late)
    backfill.backfill(pipeline.spark, pipeline.topic, {0: 0, 1: 0}, {0: 2, 1: 0})

    assert state(pipeline) == {"b": 2, "c": 4}


def test_backfill_stores_no_letters_of_what_it_reads_beyond_its_range(make: MakePipeline) -> None:
    """Sent: a bad record in the range and one after it. Stored once more: the first."""
    pipeline = make()
    pipeline.send(event("a", 1), bad("in"), bad("after"))
    pipeline.drain()

    backfill.backfill(pipeline.spark, pipeline.topic, {0: 0, 1: 0}, {0: 2, 1: 0})

    assert [letter.key for letter in pipeline.letters()] == [b"in", b"after", b"in"]
    assert all(balance.holds for balance in pipeline.balances)


def test_mended_record_does_not_overwrite_newer_data_when_replayed(make: MakePipeline) -> None:
    """Rejected: an old state of a, and of b which was deleted since. Replayed once they decode."""
    pipeline = make()
    old = "id STRING NOT NULL, old STRING NOT NULL"
    pipeline.write_schema(old)
    pipeline.send(*((key.encode(), {"id": key, "old": "x"}, [], 0) for key in "abc"))
    pipeline.write_schema(DDL)
    pipeline.send(event("a", 2), delete("b"))
    pipeline.drain()
    assert state(pipeline) == {"a": 2}
    assert len(pipeline.letters()) == 3

    pipeline.write_schema(old)
    pipeline.drain()
    backfill.replay(pipeline.spark, pipeline.topic, reason=LACKS_A_FIELD, since_ms=0)

    assert state(pipeline) == {"a": 2, "c": None}


@pytest.mark.parametrize(
    ("ddl", "why"),
    [
        ("id STRING, amount INT", "is not a required field"),
        ("id STRING NOT NULL, ID STRING", "nothing but case"),
    ],
)
def test_key_column_that_is_no_key_is_refused(make: MakePipeline, ddl: str, why: str) -> None:
    """A key that may be null, and one that a table cannot tell from another column."""
    pipeline = make()
    pipeline.write_schema(ddl)

    with pytest.raises(SettingsError, match=why):
        pipeline.drain()


def test_writers_at_the_same_time_all_get_through(make: MakePipeline) -> None:
    """Written at once: four states of one key. The table lets one in and turns the rest away."""
    pipeline = make()
    pipeline.send(event("a", 0, note="x"))
    pipeline.drain()
    held = pipeline.spark.createDataFrame(pipeline.rows())

    def write(number: int) -> None:
        newer = {"_offset": F.lit(number), "amount": F.lit(number), "_deleted": F.lit(False)}
        sink.fill(held.withColumns(newer), pipeline.topic)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(1, 5)))

    assert state(pipeline) == {"a": 4}
