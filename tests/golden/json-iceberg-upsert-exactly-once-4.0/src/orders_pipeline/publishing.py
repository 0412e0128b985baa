"""A batch's commit that no second one can follow: it is staged, then published.

What Iceberg stages under a ``wap.id`` is no part of the table before it is published. An append's
id it publishes once, a MERGE only on the snapshot that it was made on. So nothing comes twice from
a process that slept while another did its batch, or from a commit whose answer was lost and late:
Iceberg, ``CherryPickOperation``.
"""

import json
from collections.abc import Callable

from pyspark.sql import SparkSession

from . import catalog, table
from .batch import Batch
from .errors import BatchError
from .settings import Topic

ALLOWED = "write.wap.enabled"
"""The table property without which Iceberg commits at once what is to be staged."""


def published(
    action: Callable[[], None], batch: Batch, topic: Topic, spark: SparkSession
) -> Callable[[], None]:
    """``action``, whose one commit is then staged as this batch's and published.

    What is returned raises BatchError where the table has the batch by then. It raises what Iceberg
    raises where another's commit came between: nothing was published, and it can be called again.
    """
    name = json.dumps(batch.label())

    def stage_and_publish() -> None:
        _allow(topic, spark)
        spark.conf.set("spark.wap.id", name)
        try:
            action()
        finally:
            spark.conf.unset("spark.wap.id")
        check_absent(batch, topic, spark)
        held = catalog.load(spark, topic)
        newest = reversed(held.snapshots())
        staged = next(each for each in newest if each.summary().get("wap.id") == name)
        held.manageSnapshots().cherrypick(staged.snapshotId()).commit()

    return stage_and_publish


def check_absent(batch: Batch, topic: Topic, spark: SparkSession) -> None:
    """Raises BatchError where the table has the batch."""
    label = table.newest_label(spark, topic, batch.pipeline)
    if label and label["batch"] >= batch.id:
        raise BatchError(
            f"Batch {batch.id} of {topic.name} came into the table {topic.location} while this "
            "process was at it: by another process on this checkpoint, or by an earlier commit "
            "that was given up for lost. Nothing was added to it. See that one process runs, "
            "and start it again."
        )


def _allow(topic: Topic, spark: SparkSession) -> None:
    held = catalog.load(spark, topic)
    if held.properties().get(ALLOWED) != "true":
        held.updateProperties().set(ALLOWED, "true").commit()
