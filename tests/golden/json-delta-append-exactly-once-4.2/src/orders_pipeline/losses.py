"""Batches that the table or the checkpoint has lost, and what to do then."""

import json
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from . import kafka_topics, table
from .batch import command_to_go_on
from .checkpoint import Checkpoint
from .settings import Topic


@dataclass(frozen=True)
class Present:
    """The topic, the table and the checkpoint, as they are now."""

    topic_id: str
    table_id: str | None
    commits: list[table.Commit]
    """The newest changes of the table, the newest first."""
    own: dict[str, Any] | None
    """Of this checkpoint's newest batch that is there now; None without one."""
    forgets: bool
    """The table may have batches of this checkpoint whose labels are gone."""
    pipeline: str
    """What the labels of this checkpoint's batches say of whose they are."""
    planned: int | None
    """The newest batch that the checkpoint has planned."""
    committed: int | None
    """The newest batch that the checkpoint counts as done."""

    @property
    def next_batch(self) -> int:
        """The batch that comes next: one that was planned and is not committed comes again."""
        if self.planned is None:
            return 0
        return self.planned + (self.planned == self.committed)


def look(spark: SparkSession, topic: Topic, checkpoint: Checkpoint, generation: int) -> Present:
    """Asks all three how they are."""
    topic_id = kafka_topics.topic_id(topic.settings, topic.name)
    table_id = table.identity(spark, topic)
    pipeline = f"{checkpoint.identity()}.{generation}"
    commits = table.commits(spark, topic)
    own = _of(pipeline, [commit.label for commit in _live(commits) if commit.label])
    return Present(
        topic_id=topic_id,
        table_id=table_id,
        commits=commits,
        own=own,
        forgets=own is None and table.last_transaction(spark, topic, pipeline) is not None,
        pipeline=pipeline,
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


def set_back(topic: Topic, present: Present, first: int | None) -> str | None:
    """Which batches, of all from ``first`` on, the checkpoint counts and the table lacks.

    None if it lacks none, or may have them without a label, or ``first`` is not known.
    """
    own = present.own
    if present.committed is None or (own is None and (first is None or present.forgets)):
        return None
    reached = own["batch"] if own else (first or 0) - 1
    if reached >= present.committed:
        return None
    has = f"its newest batch is {own['batch']}" if own else f"it has no batch from {first} on"
    ends = (own or newest_label(present) or {}).get("ends", {})
    return (
        f"The table {topic.location} was set back: {has}, up to the offsets {ends}, and "
        f"{topic.checkpoint} counts batch {present.committed} as written. Nothing was written. "
        f"Accept it with: run --rebind {topic.name}, then bring the rows back with: backfill "
        f"{topic.name} --from-offsets '{json.dumps(ends)}'"
    )


def of_checkpoint(topic: Topic, present: Present) -> str | None:
    """Which batch of its own the table has and the checkpoint never planned; None if none."""
    newest = _of(present.pipeline, [commit.label for commit in present.commits if commit.label])
    planned = -1 if present.planned is None else present.planned
    if newest is None or newest["batch"] <= planned:
        return None
    return (
        f"The checkpoint {topic.checkpoint} was set back: the table {topic.location} has batch "
        f"{newest['batch']} of it, up to the offsets {newest['ends']}, which it has not planned, "
        "so some of it was lost. Nothing was written. Remove that folder and go on where the "
        f"table ends: {command_to_go_on(topic.name, newest['ends'])}"
    )


def of_another(topic: Topic, present: Present) -> str | None:
    """Up to where another checkpoint has fed the table since this one's newest batch, or None."""
    newest = newest_label(present)
    checkpoint_id = present.pipeline.rsplit(".", 1)[0]
    if not present.own or not newest or newest["pipeline"].rsplit(".", 1)[0] == checkpoint_id:
        return None
    return (
        f"The table {topic.location} was fed by another checkpoint after the newest batch of "
        f"{topic.checkpoint}, up to the offsets {newest['ends']}: to go on with this one would "
        "bring those records again. Nothing was written. Use the other one; or remove this folder "
        f"and go on where the table ends: {command_to_go_on(topic.name, newest['ends'])}"
    )


def has_planned(present: Present) -> bool:
    """True when the table has, now, the newest batch that the checkpoint has planned."""
    return present.own is not None and present.own["batch"] == present.planned


def _of(pipeline: str, labels: list[dict[str, Any]]) -> dict[str, Any] | None:
    """The first of the labels that is of a pipeline."""
    return next((label for label in labels if label["pipeline"] == pipeline), None)


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
