"""A batch's commit that no second one can follow: it is staged, then published.

What Iceberg stages under a ``wap.id`` is no part of the table before it is published: a MERGE only
on the snapshot that it was made on. So nothing comes twice from a process that slept while another
did its batch, or from a commit whose answer was lost and late.
"""

import json
from collections.abc import Callable
from typing import Any

from pyspark.sql import SparkSession

from . import table
from .batch import Batch
from .errors import BatchError
from .replays import check_follows
from .settings import Topic

ALLOWED = "write.wap.enabled"
"""The table property without which Iceberg commits at once what is to be staged."""


def published(
    action: Callable[[Any], None], batch: Batch, commit_id: str, topic: Topic, spark: SparkSession
) -> Callable[[Any], None]:
    """``action``, whose one commit is then staged as this batch's and published.

    Both are given the table as it is before it (``catalog.load``). Another process may have staged
    the same batch: published is the commit that has this id.

    What is returned raises as ``check_absent`` does. It raises what Iceberg raises where another's
    commit came between: nothing was published, and it can be called again.
    """
    name = json.dumps(batch.label())

    def stage_and_publish(held: Any) -> None:
        if held.properties().get(ALLOWED) != "true":
            held.updateProperties().set(ALLOWED, "true").commit()
        spark.conf.set("spark.wap.id", name)
        try:
            action(held)
        finally:
            spark.conf.unset("spark.wap.id")
        held.refresh()
        check_absent(held, batch, topic)
        newest = reversed(held.snapshots())
        found = (each for each in newest if each.summary().get(table.COMMIT) == commit_id)
        staged: Any = next(found, None)
        gone = f"batch {batch.id} of {topic.name} was staged, and is gone: another expired it"
        _see(staged is not None, gone, spark)
        _publish(held, staged, spark)

    return stage_and_publish


def check_absent(held: Any, batch: Batch, topic: Topic) -> None:
    """Sees that the table, as it was loaded, has all batches up to this one, and not this one.

    Raises:
        BatchError: it has the batch.
        RefusedError: see ``replays.check_follows``.
    """
    label = table.label_in(held, batch.pipeline)
    if label is None and table.may_forget(held, batch.pipeline):
        return
    check_follows(label["batch"] if label else None, batch, topic)
    if label and label["batch"] >= batch.id:
        raise BatchError(
            f"Batch {batch.id} of {topic.name} came into the table {topic.location} while this "
            "process was at it: by another process on this checkpoint, or by an earlier commit "
            "that was given up for lost. Nothing was added to it. See that one process runs, "
            "and start it again."
        )


def _publish(held: Any, staged: Any, spark: SparkSession) -> None:
    """Makes ``staged`` the table's state, unless that is another by now than it was made on.

    Not by a cherry-pick, which takes a MERGE that only inserts for an append, and goes with any.
    """
    jvm: Any = spark._jvm
    operations = held.operations()
    base = operations.current()
    newest = base.currentSnapshot()
    same = staged.parentId() == (None if newest is None else newest.snapshotId())
    _see(same, "another's commit came before the publication", spark)
    builder = jvm.org.apache.iceberg.TableMetadata.buildFrom(base)
    operations.commit(base, builder.setBranchSnapshot(staged.snapshotId(), "main").build())


def _see(holds: bool, otherwise: str, spark: SparkSession) -> None:
    """Raises what Iceberg raises where another's commit came between, unless it ``holds``."""
    jvm: Any = spark._jvm
    gateway: Any = spark.sparkContext._gateway
    none = gateway.new_array(jvm.Object, 0)
    jvm.org.apache.iceberg.exceptions.ValidationException.check(holds, otherwise, none)
