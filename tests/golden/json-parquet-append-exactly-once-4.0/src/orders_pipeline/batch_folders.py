"""A folder of Parquet files: written beside the table, then moved into it, file by file.

So whoever lists the table sees whole files only, in any store. The label comes last: a folder
without one is of a batch that was cut short, and is cleared before that batch is written again.

    <drafts>/<draft>/_begun              written first: while it is there, nothing was removed
    <drafts>/<draft>/rows/*.parquet      what is moved
"""

import json
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import DataFrame

from . import table
from .errors import BatchError
from .settings import Topic
from .shapes import FOLDERS
from .storage import Folder

BEGUN, ROWS = "_begun", "rows"


def put(
    rows: DataFrame,
    topic: Topic,
    name: str,
    label: dict[str, Any],
    check: Callable[[], None],
) -> None:
    """Makes the folder ``name`` of the table hold *rows* and nothing else.

    ``check`` is called once they are written and before the first is moved into the table: what it
    raises leaves the table as it was.

    Raises:
        BatchError: somebody removed the files before they were all moved.
    """
    spark = rows.sparkSession
    drafts, folder = table.drafts(spark, topic), Folder(spark, topic.location)
    draft, target = f"{name}.{uuid.uuid4()}", f"{FOLDERS}={name}"
    write_draft(rows, topic, drafts, draft)
    check()
    if not is_whole(drafts, draft):
        raise BatchError(
            f"{drafts.location}/{draft} was removed while rows for {topic.location} were written "
            "there. The table is as it was. Run the same command again."
        )
    folder.remove(target)
    move(drafts, draft, folder, target)
    write_label(folder, target, label)
    drafts.remove(draft)


def write_draft(rows: DataFrame, topic: Topic, drafts: Folder, draft: str) -> None:
    """Writes *rows* as the files of a draft."""
    drafts.write(f"{draft}/{BEGUN}", topic.name)
    partitioned = rows.write.partitionBy(*topic.table.partition_columns)
    partitioned.parquet(f"{drafts.location}/{draft}/{ROWS}")


def is_whole(drafts: Folder, draft: str) -> bool:
    """True when nobody has removed a draft since it was begun: drafts are removed as a whole.

    Spark would write on without a word, and what its tasks had written before would be missing.
    """
    return drafts.read(f"{draft}/{BEGUN}") is not None


def move(drafts: Folder, draft: str, folder: Folder, target: str) -> None:
    """Moves the Parquet files of a draft to where they are read; again, if that was cut short.

    Raises:
        BatchError: one is gone from the draft, or could not be moved.
    """
    moved = 0
    try:
        for file in drafts.files(f"{draft}/{ROWS}"):
            if file.endswith(".parquet"):
                folder.take(drafts, f"{draft}/{ROWS}/{file}", f"{target}/{file}")
                moved += 1
        if not is_whole(drafts, draft):
            raise FileNotFoundError(f"{drafts.location}/{draft} is gone")
    except FileNotFoundError as error:
        raise BatchError(
            f"{error}. Files that were moved to {folder.location}/{target} before: {moved}; the "
            "folder has no label yet. Run the same command again."
        ) from error


def write_label(folder: Folder, target: str, label: dict[str, Any]) -> None:
    """Says that a folder is whole, and what it holds."""
    written_at = datetime.now(UTC).isoformat()
    folder.write(f"{target}/{table.LABEL}", json.dumps({**label, "written_at": written_at}))
