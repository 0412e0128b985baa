"""What makes a replay safe: a batch's commit carries its identity, and Delta takes each only once.

``txnAppId`` and ``txnVersion`` are Delta's own (its documentation, "Idempotent table writes in
foreachBatch"): a write whose pair the table has seen is skipped without a word. So the table is
asked before each batch, and what it says about that one is compared with what the checkpoint plans.
"""

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from . import table
from .batch import Batch, command_to_go_on
from .errors import RefusedError
from .settings import Topic

TRANSACTION = "spark.databricks.delta.write."
AFTER_A_FAILURE = "start again: the batch is done again"
"""What to do once the cause of a failed batch is mended."""
log = logging.getLogger(__name__)


@contextmanager
def commit_of(batch: Batch, spark: SparkSession) -> Iterator[None]:
    """Every Delta commit made inside is this batch's, and is skipped if it was made before.

    The identity is in the session only for that long: it would make the next write look repeated.
    """
    identity = {
        TRANSACTION + "txnAppId": batch.pipeline,
        TRANSACTION + "txnVersion": str(batch.id),
        table.LABEL: json.dumps(batch.label()),
    }
    for key, value in identity.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key in identity:
            spark.conf.unset(key)


def was_written(batch: Batch, topic: Topic, spark: SparkSession) -> bool:
    """True when an earlier run wrote this batch and stopped before Spark had committed it.

    Raises:
        RefusedError: it was written, but with other records or under another schema than the
            checkpoint plans now; to skip it would lose the difference.
    """
    last = table.last_transaction(spark, topic, batch.pipeline)
    if last is None or last < batch.id:
        return False
    labels = [commit.label for commit in table.commits(spark, topic) if commit.label]
    ours = [label for label in labels if label["pipeline"] == batch.pipeline]
    if not ours:
        log.warning("batch %d of %s is in the table, its history is not", batch.id, topic.name)
        return True
    label = ours[0]
    planned = batch.label()
    if label["ends"] != planned["ends"] or last > batch.id:
        raise RefusedError(
            f"Batch {batch.id} of {topic.name} is in the table {topic.location} up to the offsets "
            f"{label['ends']}, but the checkpoint {topic.checkpoint} plans it up to "
            f"{planned['ends']}: some of it was lost. Nothing was written. Remove that folder and "
            f"go on where the table ends: {command_to_go_on(topic.name, label['ends'])}"
        )
    if label["schema"] != planned["schema"]:
        raise RefusedError(
            f"{topic.schema_path}, or a setting of how values are decoded, changed while batch "
            f"{batch.id} of {topic.name} was written but not committed, so what can be read in it "
            "only now would be lost. Nothing was written. Put it back, run until the batch is "
            "committed, then change it."
        )
    return True
