"""The Iceberg table of a topic: made, widened, read in its history.

A batch's snapshot is labelled with what identifies the batch. Snapshots expire, and may be set
back; the newest one stays, and with it all that was not set back.
"""

import json
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    ByteType,
    DataType,
    IntegerType,
    MapType,
    ShortType,
    StructField,
    StructType,
)

from . import catalog, partitioning
from .catalog import quoted
from .errors import RefusedError
from .settings import Topic
from .shapes import METADATA, PARTITION

HISTORY = 1000
"""How many of the newest changes are searched; a commit in question is among the last few."""
LABEL = "ingest.batch"
"""The property of a snapshot that says which batch it is."""
COMMIT = "ingest.commit"
"""The property of a snapshot that tells it from all others."""
PUBLISHED = "published-wap-id"
"""Iceberg's own: has the label where what was staged came after another's snapshot."""
MERGES = {
    # A MERGE writes what changes beside the files that are there, not those files anew.
    "write.merge.mode": "merge-on-read",
    # It meets whatever was added since it looked: the same keys may be among that.
    "write.merge.isolation-level": "serializable",
}
PROPERTIES = {
    "format-version": "2",
    **MERGES,
    # Each commit writes a file of metadata, and nobody else removes them.
    "write.metadata.delete-after-commit.enabled": "true",
}
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Commit:
    """One change of the table's state; ``label`` is ``Batch.label`` where a batch made it."""

    version: int
    """When it was made, in ms since 1970: no two have the same."""
    label: dict[str, Any] | None
    restored_to: int | None
    """For a rollback, the version that it brought back."""


def prepare(spark: SparkSession, topic: Topic, columns: StructType) -> None:
    """Makes the table if there is none, and adds the columns that it lacks.

    One that another made gets the properties that a MERGE needs.

    Raises:
        RefusedError: it lacks a column and the settings say not to add any, or a type differs; or
            it is of Iceberg's first format.
    """
    taken = sorted({column.name for column in columns if column.name.lower() in METADATA})
    if taken:
        raise RefusedError(
            f"transform.py gives {topic.name} the columns {taken}, which the Iceberg table "
            "has of its own. Nothing was written. Give them other names."
        )
    columns = _kept(columns)
    name = catalog.full_name(spark, topic)
    held = catalog.load(spark, topic)
    if held is None:
        log.info("making the table %s", topic.location)
        spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {catalog.namespace(spark, topic)}")
        properties = ", ".join(f"'{key}' = '{value}'" for key, value in PROPERTIES.items())
        by = ", ".join(_partition_clause(entry) for entry in partitioning.partitioning(topic))
        spark.sql(
            f"CREATE TABLE {name} ({_listed(spark, columns)}) USING iceberg "
            f"{f'PARTITIONED BY ({by})' if by else ''} TBLPROPERTIES ({properties})"
        )
        return
    _check_format(held, topic)
    present = {field.name.lower(): field for field in spark.table(name).schema}
    missing = [field for field in columns if field.name.lower() not in present]
    for field in columns:
        there = present.get(field.name.lower(), field).dataType
        if there.simpleString().lower() != field.dataType.simpleString().lower():
            raise RefusedError(
                f"The column {field.name} of the table {topic.location} is "
                f"{there.simpleString()}; the pipeline has {field.dataType.simpleString()} for it. "
                "Nothing was written. Give the field another name, or change the table's column: "
                "docs/RUNBOOK.md, A schema change."
            )
    if missing and topic.table.schema_changes == "refuse":
        raise RefusedError(
            f"The table {topic.location} lacks the columns {[field.name for field in missing]}. "
            'Nothing was written. Add them, or set table.schema_changes = "add".'
        )
    _set_for_merges(held, topic)
    if missing:
        log.info("adding to %s: %s", topic.location, [field.name for field in missing])
        spark.sql(f"ALTER TABLE {name} ADD COLUMNS ({_listed(spark, missing)})")


def exists(spark: SparkSession, topic: Topic) -> bool:
    """True when the topic has a table.

    Raises:
        NoAnswerError: the catalog does not answer; nothing was written.
    """
    with catalog.answers(topic):
        return catalog.load(spark, topic) is not None


def identity(spark: SparkSession, topic: Topic) -> str | None:
    """The id that the table got when it was made; None where there is no table.

    Raises:
        NoAnswerError: the catalog does not answer; a start, and each batch, asks it for this first.
    """
    with catalog.answers(topic):
        held = catalog.load(spark, topic)
    return None if held is None else str(held.uuid())


def read(spark: SparkSession, topic: Topic, snapshot: int | None = None) -> DataFrame:
    """The rows of the table, now or as of a snapshot, with the columns that *rows* have."""
    reader = spark.read if snapshot is None else spark.read.option("snapshot-id", snapshot)
    return reader.table(catalog.full_name(spark, topic)).withColumnRenamed(PARTITION, "_partition")


def fitted(rows: DataFrame, topic: Topic, *others: str) -> DataFrame:
    """*rows* with exactly the table's columns, those that they have not null, and ``others``.

    Raises:
        RefusedError: the table lacks a column that they have; none of them was written.
    """
    there = rows.sparkSession.table(catalog.full_name(rows.sparkSession, topic)).schema
    rows = rows.withColumnRenamed("_partition", PARTITION)
    own = {name.lower() for name in rows.columns}
    lost = own - {name.lower() for name in [*there.names, *others]}
    if lost:
        raise RefusedError(
            f"The table {topic.location} lacks the columns {sorted(lost)}: dropped since this run "
            "began, or not yet added. None of these rows was written. Put them back; or start the "
            'stream (`run`), which adds them (table.schema_changes = "add").'
        )
    return rows.select(
        *(
            F.col(quoted(field.name))
            if field.name.lower() in own
            else F.lit(None).cast(field.dataType).alias(field.name)
            for field in there
        ),
        *others,
    )


def commits(spark: SparkSession, topic: Topic) -> list[Commit]:
    """The newest changes of the table's state, the newest first."""
    held = catalog.load(spark, topic)
    if held is None:
        return []
    found: list[Commit] = []
    made: dict[int, int] = {}
    version = 0
    for entry in list(held.history())[-HISTORY:]:
        version = max(int(entry.timestampMillis()), version + 1)
        snapshot = int(entry.snapshotId())
        restored_to = made.get(snapshot)
        label = _label(held.snapshot(snapshot)) if restored_to is None else None
        found.append(Commit(version, label, restored_to))
        made.setdefault(snapshot, version)
    return found[::-1]


def newest_label(spark: SparkSession, topic: Topic, pipeline: str) -> dict[str, Any] | None:
    """The label of a pipeline's newest batch in the table's present state; None without one."""
    return label_in(catalog.load(spark, topic), pipeline)


def label_in(held: Any, pipeline: str) -> dict[str, Any] | None:
    """The same in the table as it was loaded (``catalog.load``)."""
    labels = (_label(snapshot) for snapshot in _lineage(held))
    return next((label for label in labels if label and label["pipeline"] == pipeline), None)


def newest_label_at(held: Any) -> datetime | None:
    """When the newest batch came into the table as loaded; None where no label is left."""
    for snapshot in _lineage(held):
        if _label(snapshot):
            return datetime.fromtimestamp(snapshot.timestampMillis() / 1000, UTC)
    return None


def may_forget(held: Any, pipeline: str) -> bool:
    """True when the table as loaded may have a batch of the pipeline whose snapshot expired."""
    oldest = None
    for snapshot in _lineage(held):
        label = _label(snapshot)
        if label and label["pipeline"] == pipeline:
            return False  # a later one would be there as well
        oldest = snapshot
    return oldest is not None and oldest.parentId() is not None


def newest_snapshot(held: Any) -> int | None:
    """The snapshot that is the table's state as loaded; None where it has never had a row."""
    snapshot = held.currentSnapshot()
    return None if snapshot is None else int(snapshot.snapshotId())


def has_commit(held: Any, commit_id: str, label: str) -> bool:
    """True when the table as loaded has the commit of this id, or what it staged under ``label``.

    What is published on another's commit is a copy, which has the label alone.
    """
    summaries = (snapshot.summary() for snapshot in _lineage(held))
    return any(s.get(COMMIT) == commit_id or s.get(PUBLISHED) == label for s in summaries)


def parent(held: Any, commit_id: str) -> int | None:
    """The snapshot that a commit which is there was made on; None where it was the first."""
    made = next(s for s in _lineage(held) if s.summary().get(COMMIT) == commit_id)
    found = made.parentId()
    return None if found is None else int(found)


def _lineage(held: Any) -> Iterator[Any]:
    """The snapshots that the table's present state is made of, the newest first."""
    snapshot = None if held is None else held.currentSnapshot()
    while snapshot is not None:
        yield snapshot
        parent = snapshot.parentId()
        snapshot = None if parent is None else held.snapshot(parent)


def _label(snapshot: Any) -> dict[str, Any] | None:
    summary = snapshot.summary()
    try:
        label = json.loads(summary.get(LABEL) or summary.get(PUBLISHED) or "")
    except ValueError:
        return None
    return label if isinstance(label, dict) and "pipeline" in label else None


def _check_format(held: Any, topic: Topic) -> None:
    version = held.operations().current().formatVersion()
    if version < 2:
        raise RefusedError(
            f"The table {topic.location} is of Iceberg's format version {version}, in which no "
            "single row can be deleted. Nothing was written. Raise it first: ALTER TABLE … SET "
            "TBLPROPERTIES ('format-version' = '2')"
        )


def _set_for_merges(held: Any, topic: Topic) -> None:
    had = {name: held.properties().get(name) for name in MERGES}
    if had == MERGES:
        return
    log.info("setting of %s: %s, where it had %s", topic.location, MERGES, had)
    change = held.updateProperties()
    for name, value in MERGES.items():
        change.set(name, value)
    change.commit()


def _partition_clause(entry: partitioning.Partitioning) -> str:
    column = quoted(PARTITION if entry.column == "_partition" else entry.column)
    if not entry.transform:
        return column
    return f"{entry.transform}({', '.join(filter(None, [entry.size, column]))})"


def _listed(spark: SparkSession, columns: StructType | list[StructField]) -> str:
    return ", ".join(f"{quoted(c.name)} {_sql(spark, c.dataType)}" for c in columns)


def _sql(spark: SparkSession, kind: DataType) -> str:
    """The type in SQL, the names in it quoted, which ``simpleString`` does not do."""
    jvm: Any = spark._jvm
    return str(jvm.org.apache.spark.sql.types.DataType.fromJson(kind.json()).sql())


def _kept(columns: StructType) -> StructType:
    """The columns as an Iceberg table has them: it has no integer of less than 32 bits."""
    renamed = {"_partition": PARTITION}
    return StructType(
        [StructField(renamed.get(c.name, c.name), _kept_type(c.dataType)) for c in columns]
    )


def _kept_type(kind: DataType) -> DataType:
    if isinstance(kind, ByteType | ShortType):
        return IntegerType()
    if isinstance(kind, StructType):
        return StructType([StructField(f.name, _kept_type(f.dataType)) for f in kind])
    if isinstance(kind, ArrayType):
        return ArrayType(_kept_type(kind.elementType))
    if isinstance(kind, MapType):
        return MapType(_kept_type(kind.keyType), _kept_type(kind.valueType))
    return kind
