"""The Delta table of a topic: made, widened, read in its history, kept in shape."""

import json
import logging
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeVar

from delta.tables import DeltaTable
from py4j.protocol import Py4JJavaError
from pyspark.errors import IllegalArgumentException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import DataType, StructType

from .errors import RefusedError, SettingsError
from .settings import Topic

HISTORY = 1000
"""How many of the newest commits are searched; a commit in question is among the last few."""
ATTEMPTS = 10
CONFLICT = re.compile(
    r"DELTA_CONCURRENT_(APPEND|DELETE|WRITE)|DELTA_(METADATA|PROTOCOL)_CHANGED"
    r"|Concurrent(Append|Delete|Write)|(Metadata|Protocol)ChangedException"
)
"""What Delta says when another writer's commit came first. Not of ``ConcurrentTransaction``: that
is another process with this batch's identity."""
T = TypeVar("T")
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Commit:
    """One version of the table; ``label`` is ``Batch.label`` where a batch wrote it."""

    version: int
    label: dict[str, Any] | None
    restored_to: int | None
    """For a RESTORE, the version that it brought back."""


def prepare(spark: SparkSession, topic: Topic, columns: StructType) -> None:
    """Makes the table if there is none, and adds the columns that it lacks.

    Raises:
        RefusedError: it lacks a column and the settings say not to add any, or a type differs.
    """
    if not exists(spark, topic):
        log.info("making the table %s", topic.location)
        builder = DeltaTable.create(spark).location(topic.location).addColumns(columns)
        builder.partitionedBy(*topic.table.partition_columns)
        commit(topic, builder.execute)
        return
    present = {field.name.lower(): field for field in read(spark, topic).schema}
    missing = [field for field in columns if field.name.lower() not in present]
    for field in columns:
        there = present.get(field.name.lower(), field).dataType
        if not _holds(there, field.dataType):
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
    if missing:
        names = [field.name for field in missing]
        log.info("adding to %s: %s", topic.location, names)
        added = ", ".join(f"{quoted(f.name)} {_sql(spark, f.dataType)}" for f in missing)
        change = f"ALTER TABLE delta.{quoted(topic.location)} ADD COLUMNS ({added})"
        commit(topic, lambda: spark.sql(change))


def _sql(spark: SparkSession, kind: DataType) -> str:
    """The type in SQL, the names in it quoted, which ``simpleString`` does not do."""
    java: Any = spark._jvm
    return str(java.org.apache.spark.sql.types.DataType.fromJson(kind.json()).sql())


def exists(spark: SparkSession, topic: Topic) -> bool:
    """True when the topic has a table."""
    return DeltaTable.isDeltaTable(spark, topic.location)


def read(spark: SparkSession, topic: Topic) -> DataFrame:
    """The rows of the table."""
    return open_table(spark, topic).toDF()


def open_table(spark: SparkSession, topic: Topic) -> DeltaTable:
    """The topic's table, to merge into."""
    return DeltaTable.forPath(spark, topic.location)


def identity(spark: SparkSession, topic: Topic) -> str | None:
    """The id that Delta gave the table when it was made; None where there is no table."""
    if not exists(spark, topic):
        return None
    return str(_snapshot(spark, topic).metadata().id())


def commits(spark: SparkSession, topic: Topic) -> list[Commit]:
    """The newest commits, the newest first."""
    if not exists(spark, topic):
        return []
    history = open_table(spark, topic).history(HISTORY)
    rows = history.select(
        "version", "timestamp", "operation", "operationParameters", "userMetadata"
    ).collect()
    found = []
    for row in rows:
        restored_to = None
        if row.operation == "RESTORE":
            restored_to = _restored_version(row.operationParameters, rows)
        found.append(Commit(row.version, _label(row.userMetadata), restored_to))
    return found


def last_transaction(spark: SparkSession, topic: Topic, application: str) -> int | None:
    """The newest ``txnVersion`` that the table has of a ``txnAppId``; None where it has none."""
    if not exists(spark, topic):
        return None
    versions = _snapshot(spark, topic).transactions()
    return int(versions.apply(application)) if versions.contains(application) else None


def commit(topic: Topic, action: Callable[[], T]) -> T:
    """Does what commits to the table, again when another writer's commit came first.

    Raises:
        PySparkException, Py4JJavaError: it came first ``ATTEMPTS`` times, or something else is
            wrong.
    """
    for attempt in range(1, ATTEMPTS):
        try:
            return action()
        except (PySparkException, Py4JJavaError) as error:
            if not CONFLICT.search(str(error)):
                raise
            log.warning("attempt %d met another writer of %s", attempt, topic.location)
            time.sleep(min(0.1 * 2**attempt, 5))
    return action()


def compact(spark: SparkSession, topic: Topic, retention_hours: int) -> None:
    """Folds small files into large ones and removes files that no version needs any more.

    Raises:
        RefusedError: there is no table yet.
        SettingsError: Delta keeps them for longer than ``retention_hours``; nothing was removed.
    """
    if not exists(spark, topic):
        raise RefusedError(f"There is no table {topic.location} yet. First start the stream.")
    commit(topic, lambda: open_table(spark, topic).optimize().executeCompaction())
    try:
        commit(topic, lambda: open_table(spark, topic).vacuum(retention_hours))
    except IllegalArgumentException:
        raise SettingsError(
            f"{retention_hours} hours are less than the table {topic.location} keeps old files "
            "for, so that slow readers find them: 168, or what its property "
            "delta.deletedFileRetentionDuration says. Its small files were folded, none removed."
        ) from None


def _snapshot(spark: SparkSession, topic: Topic) -> Any:
    """The newest state of Delta's log, which tells more than DeltaTable and in less time."""
    read(spark, topic)  # brings the log up to date
    jvm: Any = spark._jvm
    delta_log = jvm.org.apache.spark.sql.delta.DeltaLog
    return delta_log.forTable(spark._jsparkSession, topic.location).unsafeVolatileSnapshot()


def quoted(name: str) -> str:
    """A column's name as SQL takes it, whatever is in it."""
    return "`" + name.replace("`", "``") + "`"


def _holds(there: DataType, here: DataType) -> bool:
    """True when the column's type is the pipeline's, nested fields included."""
    return there.simpleString().lower() == here.simpleString().lower()


def _label(text: str | None) -> dict[str, Any] | None:
    try:
        label = json.loads(text or "")
    except ValueError:
        return None
    return label if isinstance(label, dict) and "pipeline" in label else None


def _restored_version(parameters: dict[str, str], rows: list[Any]) -> int:
    if parameters.get("version"):
        return int(parameters["version"])
    # In the time zone of whoever gave the command, which is unknown: the earliest it can mean,
    # since a refusal too many does no harm.
    moment = datetime.fromisoformat(parameters["timestamp"]) - timedelta(hours=26)
    return max((row.version for row in rows if row.timestamp <= moment), default=0)
