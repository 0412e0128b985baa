"""The write: of each key the newest record wins, in the batch and against the Iceberg table."""

from collections.abc import Callable

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F

from . import catalog, table
from .batch import Batch, Written
from .catalog import quoted
from .commits import commit_batch, commit_unlabelled
from .counting import every, observe
from .newest import moment, newest
from .settings import Topic
from .shapes import PARTITION

ROW = "`new-row`"
"""What a row is called in the MERGE: as no table can be."""


def write(rows: DataFrame, batch: Batch, topic: Topic) -> Written:
    """Merges the *rows* of one batch (``shapes.py``), deletes among them, in one commit."""
    spark = rows.sparkSession
    return _merge(rows, topic, lambda action: commit_batch(action, batch, topic, spark))


def fill(rows: DataFrame, topic: Topic) -> Written:
    """The same without a batch's identity: safe to repeat, an older record changes nothing."""
    return _merge(rows, topic, lambda action: commit_unlabelled(action, rows.sparkSession))


def _merge(
    rows: DataFrame, topic: Topic, commit_it: Callable[[Callable[[], None]], str]
) -> Written:
    spark = rows.sparkSession
    rows, counts = observe(rows, received=every())
    latest, latest_counts = observe(newest(rows, topic), keys=every())
    attempts: list[tuple[int | None, Observation]] = []

    def merge() -> None:
        base = table.newest_snapshot(spark, topic)
        judged, outcome = observe(_judged(latest, topic, base), **_outcomes())
        attempts.append((base, outcome))
        _merge_into(judged, topic)

    commit_id = commit_it(merge)
    base, outcome = attempts[-1]
    parent = table.parent(spark, topic, commit_id)
    if parent == base:
        found = outcome.get
    else:  # another writer came between the look at the table and its change: look again
        found = _judged(latest, topic, parent).agg(*_named(_outcomes())).collect()[0].asDict()
    received = int(counts.get["received"])
    keys = int(latest_counts.get["keys"])
    written, deleted = int(found["written"]), int(found["deleted"])
    return Written(
        received=received,
        written=written,
        deleted=deleted,
        deduplicated=received - keys,
        stale=keys - written - deleted,
    )


def _judged(latest: DataFrame, topic: Topic, snapshot: int | None) -> DataFrame:
    """The rows of ``latest`` as ``row``, and ``wins``: whether each changes that snapshot's table.

    Iceberg does not say how many rows a MERGE deleted and how many it only found older.
    """
    held = table.read(latest.sparkSession, topic, snapshot)
    newer = _is_newer(topic, "row", "held", "_partition")
    absent = F.col("held._offset").isNull()
    wins = F.when(absent, ~F.col("row._deleted")).otherwise(newer)
    same_key = _same_key(topic, "row", "held")
    return (
        latest.alias("row")
        .join(held.alias("held"), same_key, "left")
        .select(F.struct("row.*").alias("row"), wins.alias("wins"))
    )


def _outcomes() -> dict[str, Column]:
    return {
        "written": F.count_if(F.col("wins") & ~F.col("row._deleted")),
        "deleted": F.count_if(F.col("wins") & F.col("row._deleted")),
    }


def _named(counts: dict[str, Column]) -> list[Column]:
    return [count.alias(name) for name, count in counts.items()]


def _merge_into(judged: DataFrame, topic: Topic) -> None:
    name = catalog.full_name(judged.sparkSession, topic)
    rows = table.fitted(judged.where("wins").select("row.*"), topic, "_deleted")
    columns = [column for column in rows.columns if column != "_deleted"]
    values = {quoted(column): _column(ROW, column) for column in columns}
    newer = _is_newer(topic, ROW, name, PARTITION)
    deleted = _column(ROW, "_deleted")
    (
        rows.alias(ROW.strip("`"))
        .mergeInto(name, _same_key(topic, ROW, name))
        .whenMatched(newer & deleted)
        .delete()
        .whenMatched(newer)
        .update(values)
        .whenNotMatched(~deleted)
        .insert(values)
        .merge()
    )


def _same_key(topic: Topic, row: str, held: str) -> Column:
    same = F.lit(True)
    for name in topic.table.key_columns:
        same &= _column(row, name) == _column(held, name)
    return same


def _is_newer(topic: Topic, row: str, held: str, partition: str) -> Column:
    def both(name: str) -> tuple[Column, Column]:
        return _column(row, name), _column(held, name)

    (offset, held_offset), (place, held_place) = both("_offset"), both(partition)
    by_time = F.struct(_column(row, "_timestamp"), place) > F.struct(
        _column(held, "_timestamp"), held_place
    )
    by_coordinates = F.when(place == held_place, offset > held_offset).otherwise(by_time)
    if not topic.table.newest_by:
        return by_coordinates
    ours, theirs = moment(f"{row}.", topic), moment(f"{held}.", topic)
    return (ours > theirs) | ((ours == theirs) & by_coordinates)


def _column(side: str, name: str) -> Column:
    return F.col(f"{side}.{quoted(name)}")
