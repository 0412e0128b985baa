"""What a checkpoint was made with, and the refusal to go on with anything else.

A checkpoint is only offsets. Under a topic that was recreated they point at other records; beside a
table that was replaced, restored or fed by another checkpoint they say that rows are there which
are not, or the reverse. ``binding.json`` in the checkpoint's folder remembers both sides.
"""

import json
import logging
from dataclasses import asdict, dataclass, replace
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from . import kafka, table
from .batch import command_to_go_on
from .checkpoint import Checkpoint
from .errors import RefusedError
from .settings import Topic

FILE = "binding.json"
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Binding:
    """What a checkpoint belongs to."""

    topic_id: str
    table_id: str
    table_settings: dict[str, Any]
    table_version: int
    """The table's newest version when it was bound: what happened before is accepted."""
    starting_offsets: str = "earliest"
    """Where the checkpoint begins: fixed when it is bound, since topics share the setting."""
    generation: int = 0
    """Raised by each ``--rebind`` to another state of the table."""


@dataclass(frozen=True)
class _Present:
    """What a binding is compared with."""

    topic_id: str
    table_id: str | None
    commits: list[table.Commit]
    checkpoint_id: str | None
    planned: int | None
    """The newest batch that the checkpoint has planned."""


def bind(spark: SparkSession, topic: Topic, columns: StructType, rebind: bool) -> Binding:
    """Checks a checkpoint against its topic and its table, makes the table, and binds the three.

    With ``rebind``, what would be refused is accepted as it is now.

    Raises:
        RefusedError: they do not belong together; nothing was written.
    """
    checkpoint = Checkpoint(spark, topic.checkpoint, topic.name)
    found = _read(checkpoint)
    present = _look(spark, topic, checkpoint)
    problem = _problem(found, topic, present)
    if problem and not rebind:
        raise RefusedError(problem)
    if problem:
        log.warning("accepted by --rebind: %s", problem)
    table.prepare(spark, topic, columns)
    now = Binding(
        topic_id=present.topic_id,
        table_id=str(present.table_id or table.identity(spark, topic)),
        table_settings=_table_settings(topic),
        table_version=present.commits[0].version if present.commits else 0,
        starting_offsets=topic.settings.kafka.starting_offsets,
    )
    if found:
        # A batch that the table, or the checkpoint, has lost is written again: under another
        # identity, since Delta still counts it as written.
        has_lost = (
            present.table_id != found.table_id
            or _lost_commit(present.commits, found.table_version)
            or _ahead(found, present)
        )
        begins_again = rebind and present.planned is None
        now = replace(
            now,
            generation=found.generation + bool(has_lost),
            table_version=now.table_version if problem else found.table_version,
            starting_offsets=now.starting_offsets if begins_again else found.starting_offsets,
        )
    if now != found:
        checkpoint.files.write(FILE, json.dumps(asdict(now), indent=2))
    return now


def check(spark: SparkSession, topic: Topic, bound: Binding) -> None:
    """Sees that topic and table are still those that a running query was bound to.

    Raises:
        RefusedError: one of them was replaced since; nothing was written.
    """
    topic_id = kafka.topic_id(topic.settings, topic.name)
    problem = _replaced(bound, topic, topic_id, table.identity(spark, topic))
    if problem:
        raise RefusedError(problem)


def find_problem(spark: SparkSession, topic: Topic) -> str | None:
    """What no longer belongs together, and what to do; None if all does. Writes nothing."""
    checkpoint = Checkpoint(spark, topic.checkpoint, topic.name)
    return _problem(_read(checkpoint), topic, _look(spark, topic, checkpoint))


def _look(spark: SparkSession, topic: Topic, checkpoint: Checkpoint) -> _Present:
    return _Present(
        topic_id=kafka.topic_id(topic.settings, topic.name),
        table_id=table.identity(spark, topic),
        commits=table.commits(spark, topic),
        checkpoint_id=checkpoint.identity(),
        planned=checkpoint.planned(),
    )


def _read(checkpoint: Checkpoint) -> Binding | None:
    text = checkpoint.files.read(FILE)
    return Binding(**json.loads(text)) if text else None


def _problem_of_new(topic: Topic, present: _Present) -> str | None:
    """Why a checkpoint without a binding cannot be bound; None if it can."""
    if present.planned is not None:
        return (
            f"The checkpoint {topic.checkpoint} was not made by this pipeline: it has batches but "
            f"no {FILE}. Nothing was written. Name another checkpoint_location, or accept it with: "
            f"run --rebind {topic.name}"
        )
    label = next((commit.label for commit in _live(present.commits) if commit.label), None)
    if label is None:
        return None
    return (
        f"The checkpoint {topic.checkpoint} is new, but the table {topic.location} was fed by "
        f"another one, up to the offsets {label['ends']}. Nothing was written. To go on there: "
        f"{command_to_go_on(topic.name, label['ends'])}. "
        "To read the topic again from kafka.starting_offsets on, over what the table holds: "
        f"run --rebind {topic.name}"
    )


def _problem(found: Binding | None, topic: Topic, present: _Present) -> str | None:
    """What no longer fits together; None if all does."""
    if found is None:
        return _problem_of_new(topic, present)
    replaced = _replaced(found, topic, present.topic_id, present.table_id)
    if replaced:
        return replaced
    commits = present.commits
    lost = _lost_commit(commits, found.table_version)
    if lost is not None:
        return (
            f"The table {topic.location} was restored to version {lost.restored_to}, before "
            f"batches that {topic.checkpoint} counts as written. Nothing was written. Accept it "
            f"with: run --rebind {topic.name}, then bring their rows back with: backfill "
            f"{topic.name} --from-offsets '{json.dumps(_ends_at(commits, lost.restored_to))}'"
        )
    ahead = _ahead(found, present)
    if ahead is not None:
        return (
            f"The checkpoint {topic.checkpoint} was set back: the table {topic.location} has batch "
            f"{ahead['batch']} of it, up to the offsets {ahead['ends']}, which it has not planned, "
            "so some of it was lost. Nothing was written. Remove that folder and go on where the "
            f"table ends: {command_to_go_on(topic.name, ahead['ends'])}"
        )
    if _table_settings(topic) != found.table_settings:
        return (
            f"The table settings of {topic.name} were {found.table_settings} when "
            f"{topic.checkpoint} was made and are {_table_settings(topic)} now. Nothing was "
            "written. Put them back; or give the topic a new table and checkpoint; or accept it "
            f"with: run --rebind {topic.name}"
        )
    return None


def _replaced(found: Binding, topic: Topic, topic_id: str, table_id: str | None) -> str | None:
    """Why the topic or the table is no longer the one that was bound; None if both are."""
    if topic_id != found.topic_id:
        return (
            f"The topic {topic.name} was recreated (its id was {found.topic_id}, now {topic_id}), "
            f"so the offsets in {topic.checkpoint} and in {topic.location} mean other records. "
            "Nothing was written. Name another table.location and remove the checkpoint's folder, "
            f"then read the new topic from its start with: run --rebind {topic.name}"
        )
    if table_id != found.table_id:
        state = "is gone" if table_id is None else "was replaced by another"
        return (
            f"The table {topic.location} {state} since {topic.checkpoint} was made, so the rows "
            "that the checkpoint counts as written are not in it. Nothing was written. Restore the "
            "table; or remove the checkpoint's folder and start; or go on without those rows: "
            f"run --rebind {topic.name}"
        )
    return None


def _lost_commit(commits: list[table.Commit], accepted: int) -> table.Commit | None:
    """The newest RESTORE since ``accepted`` that took a batch's commit away; None if none did."""
    live = {commit.version for commit in _live(commits)}
    counted = [commit for commit in commits if commit.version > accepted]
    counted += _live([commit for commit in commits if commit.version <= accepted])
    if all(commit.version in live for commit in counted if commit.label):
        return None
    return next(commit for commit in commits if commit.restored_to is not None)


def _live(commits: list[table.Commit]) -> list[table.Commit]:
    """The commits that the table's present state holds, the newest first: no RESTORE took them."""
    live: list[table.Commit] = []
    upto: int | None = None
    for commit in commits:
        if upto is None or commit.version <= upto:
            live.append(commit)
            upto = commit.restored_to if commit.restored_to is not None else upto
    return live


def _ahead(found: Binding, present: _Present) -> dict[str, Any] | None:
    """The label of a batch that the table has and the checkpoint never planned; None if none is."""
    newest = _newest_label(found, present)
    planned = -1 if present.planned is None else present.planned
    if newest is None or newest["batch"] <= planned:
        return None
    return newest


def _newest_label(found: Binding, present: _Present) -> dict[str, Any] | None:
    """The label of the newest batch in the table that this checkpoint has written."""
    pipeline = f"{present.checkpoint_id}.{found.generation}"
    labels = [commit.label for commit in present.commits if commit.label]
    return next((label for label in labels if label["pipeline"] == pipeline), None)


def _ends_at(commits: list[table.Commit], version: int | None) -> dict[str, int]:
    """Where the newest batch up to ``version`` ended; empty where none did."""
    held = [c.label for c in _live(commits) if c.label and version and c.version <= version]
    return dict(held[0]["ends"]) if held else {}


def _table_settings(topic: Topic) -> dict[str, Any]:
    """What cannot be changed under a table that has rows."""
    return topic.table.model_dump(exclude={"location", "schema_changes"})
