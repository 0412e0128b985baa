"""The Parquet table of a topic: a folder for each batch, with a label in it that says which.

    <location>/_table.json                                    its id, its columns, who writes it
    <location>/ingest_batch=<pipeline>.<number>/*.parquet     the rows of one batch
    <location>/ingest_batch=<pipeline>.<number>/_label.json   written last: the batch is whole
    <location>~writing/, <location>~folding/                  drafts: files not in their place yet

Readers leave out names that begin with an underscore: Spark, Hive and Arrow by themselves.
"""

import json
import logging
import re
import time
import uuid
from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructField, StructType

from .errors import RefusedError
from .settings import Topic
from .shapes import FOLDERS
from .storage import Folder

FILE, LABEL, FOLD = "_table.json", "_label.json", "_fold.json"
DAY_S = 24 * 60 * 60
log = logging.getLogger(__name__)


def prepare(spark: SparkSession, topic: Topic, columns: StructType) -> None:
    """Makes the table if there is none, and adds the columns that it lacks.

    Of the processes that write the topic's batches, the one that called this last goes on.

    Raises:
        RefusedError: it lacks a column and the settings say not to add any, or a type differs.
    """
    folder = Folder(spark, topic.location)
    found = _read(folder)
    if FOLDERS in map(str.lower, columns.fieldNames()):
        raise RefusedError(
            f"transform.py gives {topic.name} a column {FOLDERS}, which is how the folders of its "
            "table are called. Nothing was written. Give the column another name."
        )
    if found is None:
        log.info("making the table %s", topic.location)
        found = {"id": str(uuid.uuid4()), "columns": columns.jsonValue()}
    present = StructType.fromJson(found["columns"])
    missing = _missing(topic, present, columns)
    if missing and topic.table.schema_changes == "refuse":
        raise RefusedError(
            f"The table {topic.location} lacks the columns {[column.name for column in missing]}. "
            'Nothing was written. To add them, set table.schema_changes = "add".'
        )
    if missing:
        log.info("adding to %s: %s", topic.location, [column.name for column in missing])
    found["columns"] = StructType([*present, *missing]).jsonValue()
    found["writer"] = WRITER
    folder.write(FILE, json.dumps(found, indent=2))
    _clear(spark, topic, folder)


def _missing(topic: Topic, present: StructType, columns: StructType) -> list[StructField]:
    """Those of *columns* that the table lacks; refuses one that has another type there."""
    known = {column.name.lower(): column for column in present}
    for column in columns:
        there = known.get(column.name.lower(), column).dataType
        if there.simpleString().lower() != column.dataType.simpleString().lower():
            raise RefusedError(
                f"The column {column.name} of the table {topic.location} is "
                f"{there.simpleString()}; the pipeline has {column.dataType.simpleString()} for "
                "it. Nothing was written. Give the field another name, or the topic a new table."
            )
    return [column for column in columns if column.name.lower() not in known]


def check_columns(spark: SparkSession, topic: Topic, columns: StructType) -> None:
    """Sees that the table, where there is one, has these *columns*.

    Raises:
        RefusedError: it lacks one, or has another type for it; nothing was written.
    """
    found = _read(Folder(spark, topic.location))
    missing = _missing(topic, StructType.fromJson(found["columns"]), columns) if found else []
    if missing:
        raise RefusedError(
            f"The table {topic.location} lacks the columns {[column.name for column in missing]}. "
            "Nothing was written. Start the stream once, which adds them, then run this again."
        )


def _clear(spark: SparkSession, topic: Topic, folder: Folder) -> None:
    """Removes what a batch left that was cut short: its drafts, and its folder."""
    remove_abandoned(drafts(spark, topic))
    for pipeline, numbers in _batches(folder).items():
        name = f"{FOLDERS}={pipeline}.{max(numbers)}"
        if folder.read(f"{name}/{LABEL}") is None:
            folder.remove(name)


WRITER = str(uuid.uuid4())
"""This process, among those that write the table."""


def exists(spark: SparkSession, topic: Topic) -> bool:
    """True when the topic has a table."""
    return _read(Folder(spark, topic.location)) is not None


def identity(spark: SparkSession, topic: Topic) -> str | None:
    """The id that the table got when it was made; None where there is no table."""
    found = _read(Folder(spark, topic.location))
    return None if found is None else str(found["id"])


def check_writer(spark: SparkSession, topic: Topic) -> None:
    """Sees that no other process has begun to write the topic's batches since this one did.

    Raises:
        RefusedError: one has; of the batch in hand nothing was written.
    """
    found = _read(Folder(spark, topic.location))
    if found is None or found["writer"] != WRITER:
        raise RefusedError(
            f"Another process writes the table {topic.location} now, or it is gone. Nothing of "
            "this batch was written. Let one process run for each checkpoint."
        )


def read(spark: SparkSession, topic: Topic, folders: Sequence[str] = ()) -> DataFrame:
    """The rows of the table, or of some of its folders, with its columns, all nullable."""
    found = _read(Folder(spark, topic.location)) or {"columns": StructType().jsonValue()}
    columns = StructType.fromJson(found["columns"])
    paths = [f"{topic.location}/{name}" for name in folders] or [topic.location]
    rows = spark.read.schema(columns).option("basePath", topic.location).parquet(*paths)
    return rows.select(*(quoted(name) for name in columns.fieldNames()))


def newest_labels(spark: SparkSession, topic: Topic) -> list[dict[str, Any]]:
    """The label of the newest batch of each pipeline that ever wrote here, the newest first."""
    folder = Folder(spark, topic.location)
    labels = []
    for pipeline, numbers in _batches(folder).items():
        # The newest folder has no label yet where its batch is in hand, or was cut short.
        for number in sorted(numbers, reverse=True):
            if text := folder.read(f"{FOLDERS}={pipeline}.{number}/{LABEL}"):
                labels.append(json.loads(text))
                break
    return sorted(labels, key=lambda label: str(label["written_at"]), reverse=True)


def filled(spark: SparkSession, topic: Topic) -> list[str]:
    """The folders that were not written by the stream: backfilled, or folded."""
    names = batch_folders(Folder(spark, topic.location))
    return sorted(
        name for name in names if name.startswith((f"{FOLDERS}=backfill.", f"{FOLDERS}=folded."))
    )


def check_filled(spark: SparkSession, topic: Topic, before: list[str]) -> None:
    """Sees that rows have not changed places since ``before``, which :func:`filled` gave.

    Raises:
        RefusedError: some have, so that a search for rows may have missed them.
    """
    if filled(spark, topic) != before or Folder(spark, topic.location).read(FOLD):
        raise RefusedError(
            f"Another backfill, or compact, was at work on {topic.location} at the same time. "
            "Nothing was written. Once it is done, run this again; compact finishes one that was "
            "cut short."
        )


def drafts(spark: SparkSession, topic: Topic) -> Folder:
    """Where the files of batches and backfills are until they are whole."""
    return Folder(spark, f"{topic.location}~writing")


def folds(spark: SparkSession, topic: Topic) -> Folder:
    """Where the files that ``compact`` makes are until the old ones are gone."""
    return Folder(spark, f"{topic.location}~folding")


def dated(command: str) -> str:
    """A name for what a command writes, and for its draft, that says when it began."""
    return f"{command}.{time.time():.0f}-{uuid.uuid4()}"


def remove_abandoned(drafts: Folder) -> None:
    """Removes the drafts of batches, and those of commands that began more than a day ago.

    A younger one may be of a command that is at work in another process. One of a batch is not
    needed: its process is no longer the table's writer (``check_writer``).
    """
    for name in drafts.names(""):
        of_command = re.match(r"(?:backfill|folded)\.(\d+)-", name)
        if of_command is None or int(of_command[1]) < time.time() - DAY_S:
            drafts.remove(name)


def batch_folders(folder: Folder) -> list[str]:
    """The names of the folders that hold rows."""
    return [name for name in folder.names("") if name.startswith(f"{FOLDERS}=")]


def _batches(folder: Folder) -> dict[str, list[int]]:
    """The numbers of the batches in the table, by pipeline."""
    numbers: dict[str, list[int]] = {}
    for name in batch_folders(folder):
        pipeline, _, number = name.removeprefix(f"{FOLDERS}=").rpartition(".")
        if number.isdigit():
            numbers.setdefault(pipeline, []).append(int(number))
    return numbers


def quoted(name: str) -> str:
    """A column's name as SQL takes it, whatever is in it."""
    return "`" + name.replace("`", "``") + "`"


def _read(folder: Folder) -> dict[str, Any] | None:
    text = folder.read(FILE)
    return None if text is None else dict(json.loads(text))
