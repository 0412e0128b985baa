"""The write: of each key the newest record wins, in the batch and against the Delta table."""

from contextlib import AbstractContextManager, nullcontext

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from . import table
from .batch import Batch, Written
from .commits import commit_of
from .counting import every, observe
from .newest import moment, newest
from .settings import Topic


def write(rows: DataFrame, batch: Batch, topic: Topic) -> Written:
    """Merges the *rows* of one batch (``shapes.py``), deletes among them, in one commit."""
    return _merge(rows, topic, commit_of(batch, rows.sparkSession))


def fill(rows: DataFrame, topic: Topic) -> Written:
    """The same without a batch's identity: safe to repeat, an older record changes nothing."""
    return _merge(rows, topic, nullcontext())


def _merge(rows: DataFrame, topic: Topic, committing: AbstractContextManager[None]) -> Written:
    rows, counts = observe(rows, received=every())
    latest, latest_counts = observe(newest(rows, topic), keys=every())
    columns = [name for name in rows.columns if name != "_deleted"]
    values: dict[str, str | Column] = {table.quoted(name): _column("row", name) for name in columns}
    same_key = F.lit(True)
    for name in topic.table.key_columns:
        same_key &= _is_same(name, topic)
    newer = _is_newer(topic)

    def merge() -> DataFrame:
        return (
            table.open_table(rows.sparkSession, topic)
            .alias("held")
            .merge(latest.alias("row"), same_key)
            .whenMatchedDelete(newer & F.col("row._deleted"))
            .whenMatchedUpdate(newer, values)
            .whenNotMatchedInsert(~F.col("row._deleted"), values)
            .execute()
        )

    with committing:
        done = table.commit(topic, merge).first()
    received = int(counts.get["received"])
    keys = int(latest_counts.get["keys"])
    affected = int(done["num_affected_rows"])  # type: ignore[index]
    deleted = int(done["num_deleted_rows"])  # type: ignore[index]
    return Written(
        received=received,
        written=affected - deleted,
        deleted=deleted,
        deduplicated=received - keys,
        stale=keys - affected,
    )


def _is_same(name: str, topic: Topic) -> Column:
    ours, theirs = _column("row", name), _column("held", name)
    if name not in topic.table.partition_columns:
        return ours == theirs
    # Delta keeps an empty text in a partition column as null.
    return F.when(ours.cast("string") != "", ours).eqNullSafe(theirs)


def _is_newer(topic: Topic) -> Column:
    by_offset = F.col("row._offset") > F.col("held._offset")
    by_time = F.struct("row._timestamp", "row._partition") > F.struct(
        "held._timestamp", "held._partition"
    )
    same_partition = F.col("row._partition") == F.col("held._partition")
    by_coordinates = F.when(same_partition, by_offset).otherwise(by_time)
    if not topic.table.newest_by:
        return by_coordinates
    ours, theirs = moment("row.", topic), moment("held.", topic)
    return (ours > theirs) | ((ours == theirs) & by_coordinates)


def _column(side: str, name: str) -> Column:
    return F.col(f"{side}.{table.quoted(name)}")
