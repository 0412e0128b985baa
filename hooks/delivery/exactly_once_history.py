"""What makes a replay safe: the table is asked, before each batch, whether it has it already.

A batch's commit carries its identity, and Delta skips a commit that it has seen without a word. So
what the table says about the batch is compared with what the checkpoint plans.
"""

import logging
from typing import Any

from pyspark.sql import SparkSession

from . import table
from .batch import Batch
from .replays import check_follows, check_same
from .settings import Topic

AFTER_A_FAILURE = "start again: the batch is done again"
"""What to do once the cause of a failed batch is mended."""
log = logging.getLogger(__name__)


def was_written(batch: Batch, topic: Topic, spark: SparkSession) -> bool:
    """True when an earlier run wrote this batch and stopped before Spark had committed it.

    Raises:
        RefusedError: see ``replays``.
    """
    last = table.last_transaction(spark, topic, batch.pipeline)
    if last is not None and last >= batch.id:
        ours = _labels(batch, topic, spark)
        if ours:
            check_same(ours[0], batch, topic)
        else:
            log.warning("batch %d of %s is in the table, its history is not", batch.id, topic.name)
        return True
    if last != batch.id - 1 and (last is not None or batch.id != batch.first):
        # Under another guarantee a batch's commit has its label alone.
        last = max((label["batch"] for label in _labels(batch, topic, spark)), default=last)
    check_follows(last, batch, topic)
    return False


def _labels(batch: Batch, topic: Topic, spark: SparkSession) -> list[dict[str, Any]]:
    """Those of the batch's pipeline in the table's history, the newest first."""
    labels = [commit.label for commit in table.commits(spark, topic) if commit.label]
    return [label for label in labels if label["pipeline"] == batch.pipeline]
