"""What a batch's Delta commit carries: its identity, of which Delta takes each only once.

``txnAppId`` and ``txnVersion`` are Delta's own (its documentation, "Idempotent table writes in
foreachBatch"): a write whose pair the table has seen is skipped without a word.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from .batch import Batch
from .errors import BatchError

TRANSACTION = "spark.databricks.delta.write."
LABEL = "spark.databricks.delta.commitInfo.userMetadata"
"""The setting that puts a label on the commits of a session."""
COMMITTED = "spark.databricks.delta.lastCommitVersionInSession"
"""What Delta sets to the version that a session's commit made."""


@contextmanager
def commit_of(batch: Batch, spark: SparkSession) -> Iterator[None]:
    """The one Delta commit made inside is this batch's, and is skipped if it was made before.

    The identity is in the session only for that long: it would make the next write look repeated.

    Raises:
        BatchError: it was skipped: the table has the batch, of another process.
    """
    identity = {
        TRANSACTION + "txnAppId": batch.pipeline,
        TRANSACTION + "txnVersion": str(batch.id),
        LABEL: json.dumps(batch.label()),
    }
    for key, value in identity.items():
        spark.conf.set(key, value)
    spark.conf.unset(COMMITTED)
    try:
        yield
        if spark.conf.get(COMMITTED, None) is None:
            raise BatchError(
                f"Batch {batch.id} came into the table while this process was at it: by another "
                "process on this checkpoint. Nothing was added to it. See that one process runs, "
                "and start it again."
            )
    finally:
        for key in identity:
            spark.conf.unset(key)
