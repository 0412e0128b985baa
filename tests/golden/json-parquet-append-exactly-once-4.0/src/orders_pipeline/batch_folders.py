"""A folder of Parquet files: written beside the table, then moved into it, file by file.

So whoever lists the table sees whole files only, in any store. The label comes last: a folder
without one is of a batch that was cut short, and is cleared before that batch is written again.
"""

import json
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import DataFrame

from . import table
from .settings import Topic
from .shapes import FOLDERS
from .storage import Folder


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
    """
    spark = rows.sparkSession
    drafts, folder = table.drafts(spark, topic), Folder(spark, topic.location)
    draft, target = str(uuid.uuid4()), f"{FOLDERS}={name}"
    partitioned = rows.write.partitionBy(*topic.table.partition_columns)
    partitioned.parquet(f"{drafts.location}/{draft}")
    check()
    folder.remove(target)
    move(drafts, draft, folder, target)
    write_label(folder, target, label)


def move(drafts: Folder, draft: str, folder: Folder, target: str) -> None:
    """Moves the Parquet files of a draft to where they are read; again, if that was cut short."""
    for file in drafts.files(draft):
        if file.endswith(".parquet"):
            folder.take(drafts, f"{draft}/{file}", f"{target}/{file}")
    drafts.remove(draft)


def write_label(folder: Folder, target: str, label: dict[str, Any]) -> None:
    """Says that a folder is whole, and what it holds."""
    written_at = datetime.now(UTC).isoformat()
    folder.write(f"{target}/{table.LABEL}", json.dumps({**label, "written_at": written_at}))
