"""The write: of each key the newest record wins, in the batch and against the Iceberg table."""

from collections.abc import Callable
from typing import Any

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F

from . import catalog, table
from .batch import Batch, Written
from .catalog import quoted
from .commits import Action, commit_batch, commit_unlabelled
from .counting import every, observe
from .newest import moment, newest
from .settings import Topic
from .shapes import PARTITION

ROW = "`new-row`"
"""What a row is called in the MERGE: as no table can be."""
HELD = "_file"
"""What marks a row of the table as there: a name that Iceberg gives to no table's own column."""


def write(rows: DataFrame, batch: Batch, topic: Topic) -> Written:
    """Merges the *rows* of one batch (``shapes.py``), deletes among them, in one commit."""
    spark = rows.sparkSession
    return _merge(rows, topic, lambda action: commit_batch(action, batch, topic, spark))


def fill(rows: DataFrame, topic: Topic) -> Written:
    """The same without a batch's identity: safe to repeat, an older record changes nothing."""
    return _merge(rows, topic, lambda action: commit_unlabelled(action, topic, rows.sparkSession))


def _merge(rows: DataFrame, topic: Topic, commit_it: Callable[[Action], str]) -> Written:
    """Counts keys: one that the table holds twice counts once, and both of its rows change."""
    rows, counts = observe(rows, received=every())
    latest, latest_counts = observe(newest(rows, topic), keys=every())
    attempts: list[tuple[Any, int | None, Observation]] = []

    def merge(held: Any) -> None:
        base = table.newest_snapshot(held)
        judged, outcome = observe(_judged(latest, topic, base), **_outcomes())
        attempts.append((held, base, outcome))
        _merge_into(judged, topic)

    commit_id = commit_it(merge)
    held, base, outcome = attempts[-1]
    held.refresh()
    parent = table.parent(held, commit_id)
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

    Each once, also where another program has added its key a second time: it wins if it is newer
    than all rows of the key. Iceberg does not say how many rows a MERGE deleted and how many it
    only found older.
    """
    held = table.read(latest.sparkSession, topic, snapshot).withColumn(HELD, F.lit(True))
    newer = _is_newer(topic, "row", "held", "_partition")
    absent = F.col(f"held.{HELD}").isNull()
    wins = F.when(absent, ~F.col("row._deleted")).otherwise(newer)
    same_key = _same_key(topic, "row", "held")
    names = enumerate(topic.table.key_columns)
    keys = [_column("row", name).alias(f"key {number}") for number, name in names]
    return (
        latest.alias("row")
        .join(held.alias("held"), same_key, "left")
        .groupBy(*keys)
        .agg(F.first(F.struct("row.*")).alias("row"), F.bool_and(wins).alias("wins"))
        .select("row", "wins")
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
    """Whether the row is the newer one, as it is where the held one does not say what it is of."""

    def both(name: str) -> tuple[Column, Column]:
        return _column(row, name), _column(held, name)

    (offset, held_offset), (place, held_place) = both("_offset"), both(partition)
    by_time = F.struct(_column(row, "_timestamp"), place) > F.struct(
        _column(held, "_timestamp"), held_place
    )
    by_coordinates = F.when(place == held_place, offset > held_offset).otherwise(by_time)
    if not topic.table.newest_by:
        return F.coalesce(by_coordinates, F.lit(True))
    ours, theirs = moment(f"{row}.", topic), moment(f"{held}.", topic)
    return F.coalesce((ours > theirs) | ((ours == theirs) & by_coordinates), F.lit(True))


def _column(side: str, name: str) -> Column:
    return F.col(f"{side}.{quoted(name)}")
