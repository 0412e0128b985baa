"""Keeps a table in shape: small files folded, snapshots expired, files of none of them removed.

Beside the running stream. What a batch is known by survives it: the newest label does not expire.
"""

import logging
from datetime import UTC, datetime, timedelta

from pyspark.sql import Row, SparkSession

from . import catalog, table
from .commits import commit_unlabelled
from .errors import RefusedError
from .settings import Topic

ORPHAN_HOURS = 72
"""A file of no snapshot that is younger than this may be of a write that is under way."""
FOLD = {
    "min-input-files": "2",
    # A commit for each group of files: where another changed one meanwhile, the rest are folded.
    "partial-progress.enabled": "true",
    "remove-dangling-deletes": "true",
}
log = logging.getLogger(__name__)


def compact(spark: SparkSession, topic: Topic, retention_hours: int) -> None:
    """Folds small files and deletes, expires what is older than ``retention_hours``.

    Raises:
        RefusedError: there is no table yet.
        PySparkException, Py4JJavaError: other writers came first time and again, or it failed;
            what was not folded is as it was.
    """
    held = catalog.load(spark, topic)
    if held is None:
        raise RefusedError(f"There is no table {topic.location} yet. First start the stream.")

    def do(procedure: str, arguments: str) -> None:
        row = catalog.call(spark, topic, procedure, arguments).first() or Row()
        log.info("%s of %s: %s", procedure, topic.location, row.asDict())

    options = ", ".join(f"'{name}', '{value}'" for name, value in FOLD.items())
    fold = f"options => map({options})"
    commit_unlabelled(lambda _: do("rewrite_data_files", fold), topic, spark)
    commit_unlabelled(lambda _: do("rewrite_position_delete_files", ""), topic, spark)
    expired = _hours_ago(retention_hours)
    held.refresh()
    newest = table.newest_label_at(held) or expired
    do("expire_snapshots", f"older_than => {_text(min(expired, newest))}, retain_last => 1")
    old = f"older_than => {_text(_hours_ago(max(retention_hours, ORPHAN_HOURS)))}"
    # Listed by the way that the table itself goes: Hadoop's may not know its paths (s3://).
    old = f"{old}, prefix_listing => true"
    for each in catalog.call(spark, topic, "remove_orphan_files", old).collect():
        log.info("removed %s, of no snapshot", each.orphan_file_location)


def _hours_ago(hours: int) -> datetime:
    return datetime.now(UTC) - timedelta(hours=hours)


def _text(moment: datetime) -> str:
    return f"TIMESTAMP '{moment:%Y-%m-%d %H:%M:%S.%f}+00:00'"
