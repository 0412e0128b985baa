"""A commit to the Iceberg table: what it carries, and what is done when another comes first.

Iceberg puts the properties that ``CommitMetadata`` is given into the summary of every snapshot that
the same thread commits meanwhile.
"""

import json
import logging
import time
import uuid
from collections.abc import Callable
from functools import partial
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import SparkSession

from . import catalog, table
from .batch import Batch
from .catalog import names
from .errors import RefusedError
from .publishing import published
from .settings import Topic

ATTEMPTS = 10
CONFLICTS = {"CommitFailedException", "ValidationException"}
"""What Iceberg raises when another's commit came first: nothing of ours is in the table."""
UNKNOWN = {"CommitStateUnknownException", "RESTException"}
"""What it raises when no answer came to a commit, which may be in the table."""
log = logging.getLogger(__name__)
Action = Callable[[Any], None]
"""What is given the table as it is now (``catalog.load``), and commits to it once."""


def commit_batch(action: Action, batch: Batch, topic: Topic, spark: SparkSession) -> str:
    """Does ``action``, whose one commit is this batch's and says so; returns the commit's id.

    Raises:
        BatchError: the table has this batch already; nothing was added.
        RefusedError: there is no table; nothing was written.
        PySparkException, Py4JJavaError: it failed; the table has nothing of it, unless Iceberg
            does not know that, in which case the next start asks the table again.
    """
    commit_id = str(uuid.uuid4())
    label = json.dumps(batch.label())
    properties = {table.COMMIT: commit_id, table.LABEL: label}
    try:
        commit(properties, published(action, batch, commit_id, topic, spark), topic, spark)
    except (PySparkException, Py4JJavaError) as error:
        if not UNKNOWN & names(error):
            raise
        if not table.has_commit(catalog.load(spark, topic), commit_id, label):
            raise
        log.warning("batch %d of %s: no answer, but the table has it", batch.id, topic.name)
    return commit_id


def commit_unlabelled(action: Action, topic: Topic, spark: SparkSession) -> str:
    """Does ``action``, whose one commit is no batch's; returns the commit's id.

    Raises:
        RefusedError: there is no table; nothing was written.
        PySparkException, Py4JJavaError: it failed.
    """
    commit_id = str(uuid.uuid4())
    commit({table.COMMIT: commit_id}, action, topic, spark)
    return commit_id


def commit(properties: dict[str, str], action: Action, topic: Topic, spark: SparkSession) -> None:
    """Does ``action``, again when another writer came first; its snapshots carry ``properties``.

    Raises:
        RefusedError: there is no table; nothing was written.
        PySparkException, Py4JJavaError: another came first ``ATTEMPTS`` times, or it failed.
    """
    jvm: Any = spark._jvm
    ensure_callback_server_started(spark.sparkContext._gateway)  # type: ignore[no-untyped-call]
    failures = jvm.java.lang.Class.forName("java.lang.RuntimeException")
    given = jvm.java.util.HashMap(properties)
    for attempt in range(1, ATTEMPTS + 1):
        held = catalog.load(spark, topic)
        if held is None:
            raise RefusedError(
                f"The table {topic.location} is gone, or is not yet there. Nothing was written. "
                "Start the stream once (`run`): that makes it, or says how to go on."
            )
        done = _Callable(partial(action, held))
        jvm.org.apache.iceberg.spark.CommitMetadata.withCommitProperties(given, done, failures)
        if done.error is None:
            return
        if attempt == ATTEMPTS or not CONFLICTS & names(done.error):
            raise done.error
        log.warning("attempt %d met another writer of the table", attempt)
        time.sleep(min(0.1 * 2**attempt, 5))


class _Callable:
    """``java.util.concurrent.Callable``; what it raises is kept, since Java would wrap it."""

    def __init__(self, action: Callable[[], None]) -> None:
        self._action = action
        self.error: Exception | None = None

    def call(self) -> None:
        """Called by Java, in the thread that waits for it."""
        try:
            self._action()
        except Exception as error:
            self.error = error

    class Java:
        """What py4j makes of the object."""

        implements = ("java.util.concurrent.Callable",)
