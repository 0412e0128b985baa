"""Folds the folders of many small batches into one, so that a table of them stays quick to read.

Files alone cannot change places at once. So the new folder takes its place after the old ones are
gone: for a moment a reader may miss rows, but it never sees one twice. What is being folded is
noted in ``_fold.json``: a fold that was cut short is finished by the next one.
"""

import json
import logging
import uuid
from typing import Any

from pyspark.sql import SparkSession

from . import table
from .batch_folders import move, write_label
from .settings import Topic
from .shapes import FOLDERS
from .storage import Folder

SMALL_BYTES = 128 * 1024 * 1024
"""A folder that is larger stays as it is."""
log = logging.getLogger(__name__)


def compact(spark: SparkSession, topic: Topic) -> None:
    """Folds the small folders, but not the newest of a pipeline: its batch may come once more."""
    folder, drafts = Folder(spark, topic.location), table.folds(spark, topic)
    finish(spark, topic)
    drafts.remove("")
    newest = {
        f"{FOLDERS}={label['pipeline']}.{label['batch']}"
        for label in table.newest_labels(spark, topic)
    }
    old = [
        name
        for name in table.batch_folders(folder)
        if name not in newest
        and folder.read(f"{name}/{table.LABEL}")
        and folder.size_bytes(name) < SMALL_BYTES
    ]
    if len(old) < 2:
        log.info("%s has nothing to fold", topic.location)
        return
    name = f"folded.{uuid.uuid4()}"
    log.info("folding %d folders of %s", len(old), topic.location)
    large = sum(folder.size_bytes(each) for each in old) // SMALL_BYTES
    rows = table.read(spark, topic, old).coalesce(large + 1)
    partitioned = rows.write.partitionBy(*topic.table.partition_columns)
    partitioned.parquet(f"{drafts.location}/{name}")
    folder.write(table.FOLD, json.dumps({"name": name, "old": old}))
    finish(spark, topic)


def finish(spark: SparkSession, topic: Topic) -> None:
    """Does the rest of a fold that is noted, if one is; safe to repeat."""
    folder = Folder(spark, topic.location)
    text = folder.read(table.FOLD)
    if text is None:
        return
    fold: dict[str, Any] = json.loads(text)
    for name in fold["old"]:
        folder.remove(name)
    target = f"{FOLDERS}={fold['name']}"
    move(table.folds(spark, topic), fold["name"], folder, target)
    write_label(folder, target, {})
    folder.delete(table.FOLD)
