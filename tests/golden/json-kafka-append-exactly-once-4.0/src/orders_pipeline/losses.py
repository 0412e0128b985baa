"""Batches that the output topic or the checkpoint has lost, and what to do then."""

from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from . import kafka_topics, table
from .batch import command_to_go_on
from .checkpoint import Checkpoint
from .settings import Topic


@dataclass(frozen=True)
class Present:
    """The topic, the output topic and the checkpoint, as they are now."""

    topic_id: str
    table_id: str | None
    labels: list[dict[str, Any]]
    """Of the newest batch of each pipeline in the output topic, the newest first."""
    own: dict[str, Any] | None
    """Of this checkpoint's newest batch that is there now; None without one."""
    pipeline: str
    """What the labels of this checkpoint's batches say of whose they are."""
    planned: int | None
    """The newest batch that the checkpoint has planned."""


def look(spark: SparkSession, topic: Topic, checkpoint: Checkpoint, generation: int) -> Present:
    """Asks all three how they are."""
    topic_id = kafka_topics.topic_id(topic.settings, topic.name)
    table_id = table.identity(spark, topic)
    pipeline = f"{checkpoint.identity()}.{generation}"
    labels = table.newest_labels(spark, topic)
    return Present(
        topic_id=topic_id,
        table_id=table_id,
        labels=labels,
        own=_of(pipeline, labels),
        pipeline=pipeline,
        planned=checkpoint.planned(),
    )


def newest_label(present: Present) -> dict[str, Any] | None:
    """The label of the topic's newest batch, whoever wrote it; None where it has none."""
    return present.labels[0] if present.labels else None


def of_checkpoint(topic: Topic, present: Present) -> str | None:
    """Which batch of its own the topic has and the checkpoint never planned; None if none."""
    newest = present.own
    planned = -1 if present.planned is None else present.planned
    if newest is None or newest["batch"] <= planned:
        return None
    return (
        f"The checkpoint {topic.checkpoint} was set back: the topic {topic.location} has batch "
        f"{newest['batch']} of it, up to the offsets {newest['ends']}, which it has not planned, "
        "so some of it was lost. Nothing was written. Remove that folder and go on where the "
        f"rows end: {command_to_go_on(topic.name, newest['ends'])}"
    )


def _of(pipeline: str, labels: list[dict[str, Any]]) -> dict[str, Any] | None:
    """The first of the labels that is of a pipeline."""
    return next((label for label in labels if label["pipeline"] == pipeline), None)
