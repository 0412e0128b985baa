"""What makes a replay safe: a batch is attempted once, and the attempt is on record before it.

No record is written twice; the records of a batch that was cut short may be missing, and their
offsets are in the log.
"""

import json
import logging

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from .batch import Batch, command_to_go_on, offsets_to_json
from .checkpoint import Checkpoint
from .errors import RefusedError
from .settings import Topic

KEPT = 100
"""Attempts that stay on record; Spark keeps as many of its own batches."""
AFTER_A_FAILURE = "start again: the batch is given up then, and the log says how to bring it back"
"""What to do once the cause of a failed batch is mended."""
log = logging.getLogger(__name__)


def is_first_attempt(batch: Batch, checkpoint: Checkpoint) -> bool:
    """Records the attempt, durably; False when this batch was attempted before.

    Raises:
        RefusedError: it was attempted with other records than the checkpoint plans now; to give
            it up would give up the difference too.
    """
    name = f"attempts/{batch.id}"
    found = checkpoint.files.read(name)
    if found is None:
        checkpoint.files.write(name, json.dumps(batch.label()))
        checkpoint.files.delete(f"attempts/{batch.id - KEPT}")
        return True
    label = json.loads(found)
    planned = batch.label()
    if label["ends"] != planned["ends"]:
        raise RefusedError(
            f"Batch {batch.id} was attempted up to the offsets {label['ends']}, but the checkpoint "
            f"{checkpoint.location} plans it up to {planned['ends']}: some of it was lost. Nothing "
            "was written. Remove that folder and go on where the attempt ended: "
            f"{command_to_go_on(checkpoint.topic, label['ends'])}"
        )
    return False


def give_up(records: DataFrame, batch: Batch, topic: Topic) -> int:
    """Logs how to bring back what the table lacks of *records*; returns how many they are."""
    counted = records.groupBy("partition").agg(
        F.count("*").alias("count"), F.min("offset").alias("start")
    )
    found = counted.collect()
    start = offsets_to_json({row.partition: row.start for row in found})
    end = offsets_to_json({row.partition: batch.ends[row.partition] for row in found})
    total = sum(int(row["count"]) for row in found)
    log.warning(
        "batch %d of %s was attempted before and is given up, with %d records. Those that are not "
        "in the table come back with: backfill %s --from-offsets '%s' --to-offsets '%s'",
        *(batch.id, topic.name, total, topic.name, json.dumps(start), json.dumps(end)),
    )
    return total
