"""Folds the folders of many small batches into one, so that a table of them stays quick to read.

Files alone cannot change places at once. So the new folder takes its place after the old ones are
gone: for a moment a reader may miss rows, but it never sees one twice. What is being folded is
noted in ``_fold.json``: a fold that was cut short is finished by the next one. ``_compact.json``
says which of two that overlap goes on.
"""

import json
import logging
from collections.abc import Callable
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from . import table
from .batch_folders import is_whole, move, write_draft, write_label
from .errors import RefusedError
from .settings import Topic
from .shapes import FOLDERS
from .storage import Folder

CLAIM = "_compact.json"
"""Names the fold of the process that began last."""
SMALL_BYTES = 128 * 1024 * 1024
"""A folder that is larger stays as it is."""
log = logging.getLogger(__name__)


def compact(spark: SparkSession, topic: Topic) -> None:
    """Folds the small folders, but not the newest of a pipeline: its batch may come once more.

    Of the processes that fold a table, the one that called this last goes on.

    Raises:
        RefusedError: another has called it since, and no row is lost; or the files of a fold that
            was cut short are gone, and nothing more was removed.
        BatchError: a file could not be moved; to repeat it is safe.
    """
    folder, drafts = Folder(spark, topic.location), table.folds(spark, topic)
    if not table.exists(spark, topic):
        log.info("there is no table %s", topic.location)
        return
    name = table.dated("folded")
    claim = json.dumps({"name": name})
    folder.write(CLAIM, claim)

    def check() -> None:
        if folder.read(CLAIM) != claim:
            raise RefusedError(
                f"Another compact of {topic.location} began after this one and goes on in its "
                "place. No row is lost. Let it end, then run this again if need be."
            )

    finish(spark, topic, check)
    table.remove_abandoned(drafts)
    small = [
        each
        for each in table.batch_folders(folder)
        if folder.read(f"{each}/{table.LABEL}") and folder.size_bytes(each) < SMALL_BYTES
    ]
    # Asked for last: a batch that is labelled meanwhile is not among those.
    newest = {
        f"{FOLDERS}={label['pipeline']}.{label['batch']}"
        for label in table.newest_labels(spark, topic)
    }
    old = [each for each in small if each not in newest]
    if len(old) < 2:
        log.info("%s has nothing to fold", topic.location)
        return
    log.info("folding %d folders of %s", len(old), topic.location)
    large = sum(folder.size_bytes(each) for each in old) // SMALL_BYTES
    try:
        rows = table.read(spark, topic, old).coalesce(large + 1)
        write_draft(rows, topic, drafts, name)
    except (PySparkException, Py4JJavaError):
        check()  # another fold removes files that are being read
        raise
    check()
    folder.write(table.FOLD, json.dumps({"name": name, "old": old}))
    finish(spark, topic, check)


def finish(spark: SparkSession, topic: Topic, check: Callable[[], None]) -> None:
    """Does the rest of a fold that is noted, if one is; safe to repeat.

    ``check`` is called before each step that another process must not do as well.

    Raises:
        RefusedError: its files are gone; no folder was removed.
        BatchError: a file could not be moved.
    """
    folder, drafts = Folder(spark, topic.location), table.folds(spark, topic)
    text = folder.read(table.FOLD)
    if text is None:
        return
    fold: dict[str, Any] = json.loads(text)
    target = f"{FOLDERS}={fold['name']}"
    if folder.read(f"{target}/{table.LABEL}") is None:
        if not is_whole(drafts, fold["name"]):
            raise RefusedError(
                f"The fold that {topic.location}/{table.FOLD} notes cannot be finished: its files "
                f"are gone from {drafts.location}/{fold['name']}. Nothing more was removed. Delete "
                "that note; if folders that it names are gone, bring back their rows by a backfill."
            )
        check()
        for name in fold["old"]:
            folder.remove(name)
        check()
        move(drafts, fold["name"], folder, target)
        write_label(folder, target, {})
    drafts.remove(fold["name"])
    folder.delete(table.FOLD)
