"""What a table of rows and a checkpoint have lost of each other's batches, and what to do then."""

import json
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from . import kafka, table
from .batch import command_to_go_on
from .checkpoint import Checkpoint
from .settings import Topic


@dataclass(frozen=True)
class Present:
    """The source's topic, the table of rows and the checkpoint, as they are now."""

    topic_id: str
    table_id: str | None
    commits: list[table.Commit]
    """The newest changes of the table, the newest first."""
    checkpoint_id: str | None
    planned: int | None
    """The newest batch that the checkpoint has planned."""
    committed: int | None
    """The newest batch that the checkpoint counts as done."""

    def pipeline(self, generation: int) -> str:
        """Who the labels of this checkpoint's batches say that they are of."""
        return f"{self.checkpoint_id}.{generation}"


def look(spark: SparkSession, topic: Topic, checkpoint: Checkpoint) -> Present:
    """Asks all three how they are."""
    return Present(
        topic_id=kafka.topic_id(topic.settings, topic.name),
        table_id=table.identity(spark, topic),
        commits=table.commits(spark, topic),
        checkpoint_id=checkpoint.identity(),
        planned=checkpoint.planned(),
        committed=checkpoint.committed(),
    )


def newest_label(present: Present) -> dict[str, Any] | None:
    """The label of the table's newest batch, whoever wrote it; None where it has none."""
    return next((commit.label for commit in _live(present.commits) if commit.label), None)


def of_table(topic: Topic, present: Present, accepted: int) -> str | None:
    """Which batches a RESTORE since the version *accepted* took away; None if none did."""
    commits = present.commits
    live = {commit.version for commit in _live(commits)}
    counted = [commit for commit in commits if commit.version > accepted]
    counted += _live([commit for commit in commits if commit.version <= accepted])
    if all(commit.version in live for commit in counted if commit.label):
        return None
    version = next(commit.restored_to for commit in commits if commit.restored_to is not None)
    return (
        f"The table {topic.location} was restored to version {version}, before batches that "
        f"{topic.checkpoint} counts as written. Nothing was written. Accept it with: run --rebind "
        f"{topic.name}, then bring their rows back with: backfill {topic.name} --from-offsets "
        f"'{json.dumps(_ends_at(commits, version))}'"
    )


def set_back(topic: Topic, present: Present, pipeline: str) -> str | None:
    """Which batches of *pipeline* the checkpoint counts and the table lacks; None if it has all."""
    newest = _newest_of(present, pipeline)
    if newest is None or present.committed is None or newest["batch"] >= present.committed:
        return None
    return (
        f"The table {topic.location} was set back: its newest batch is {newest['batch']}, up "
        f"to the offsets {newest['ends']}, and {topic.checkpoint} counts batch "
        f"{present.committed} as written. Nothing was written. Accept it with: run --rebind "
        f"{topic.name}, then bring the rows back with: backfill {topic.name} --from-offsets "
        f"'{json.dumps(newest['ends'])}'"
    )


def of_checkpoint(topic: Topic, present: Present, pipeline: str) -> str | None:
    """Which batch of *pipeline* the table has and the checkpoint never planned; None if none."""
    newest = _newest_of(present, pipeline)
    planned = -1 if present.planned is None else present.planned
    if newest is None or newest["batch"] <= planned:
        return None
    return (
        f"The checkpoint {topic.checkpoint} was set back: the table {topic.location} has batch "
        f"{newest['batch']} of it, up to the offsets {newest['ends']}, which it has not planned, "
        "so some of it was lost. Nothing was written. Remove that folder and go on where the "
        f"table ends: {command_to_go_on(topic.name, newest['ends'])}"
    )


def _newest_of(present: Present, pipeline: str) -> dict[str, Any] | None:
    """The label of the newest batch that *pipeline* has brought there."""
    labels = [commit.label for commit in present.commits if commit.label]
    return next((label for label in labels if label["pipeline"] == pipeline), None)


def has_planned(present: Present, pipeline: str) -> bool:
    """True when the table's present state has the newest batch that the checkpoint has planned."""
    labels = [commit.label for commit in _live(present.commits) if commit.label]
    planned = (pipeline, present.planned)
    return any((label["pipeline"], label["batch"]) == planned for label in labels)


def _live(commits: list[table.Commit]) -> list[table.Commit]:
    """The commits that the table's present state holds, the newest first: no RESTORE took them."""
    live: list[table.Commit] = []
    upto: int | None = None
    for commit in commits:
        if upto is None or commit.version <= upto:
            live.append(commit)
            upto = commit.restored_to if commit.restored_to is not None else upto
    return live


def _ends_at(commits: list[table.Commit], version: int | None) -> dict[str, int]:
    """Where the newest batch up to ``version`` ended; empty where none did."""
    held = [c.label for c in _live(commits) if c.label and version and c.version <= version]
    return dict(held[0]["ends"]) if held else {}
