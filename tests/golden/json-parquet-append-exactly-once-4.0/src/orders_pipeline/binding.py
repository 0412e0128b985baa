"""What a checkpoint was made with, and the refusal to go on with anything else.

A checkpoint is only offsets. Under a topic that was recreated they point at other records; beside a
table that was replaced or fed by another checkpoint they say that rows are there which
are not, or the reverse. ``binding.json`` in the checkpoint's folder remembers both sides.
"""

import json
import logging
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from . import kafka_topics, losses, table
from .batch import command_to_go_on
from .checkpoint import Checkpoint
from .errors import RefusedError
from .losses import Present, look
from .settings import Topic

FILE = "binding.json"
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Binding:
    """What a checkpoint belongs to."""

    topic_id: str
    table_id: str
    table_settings: dict[str, Any]
    starting_offsets: str = "earliest"
    """Where the checkpoint begins: fixed when it is bound, since topics share the setting."""
    generation: int = 0
    """Raised by each ``--rebind`` to another state of the table."""
    first_batch: int | None = None
    """The first batch of this generation; None in a file from before it was noted."""


def bind(spark: SparkSession, topic: Topic, columns: StructType, rebind: bool) -> Binding:
    """Checks a checkpoint against its topic and its table, makes the table, and binds the three.

    With ``rebind``, what would be refused is accepted as it is now.

    Raises:
        RefusedError: they do not belong together; nothing was written.
    """
    checkpoint = Checkpoint(spark, topic.checkpoint, topic.name)
    found = _read(checkpoint)
    present = look(spark, topic, checkpoint, found.generation if found else 0)
    problem = _problem(found, topic, present)
    # A table with folders of two kinds is one that no reader takes.
    mixed = _changed(found, topic) if found and found.table_id == present.table_id else None
    if problem and (mixed or not rebind):
        raise RefusedError(mixed or problem)
    if problem:
        log.warning("accepted by --rebind: %s", problem)
    table.prepare(spark, topic, columns)
    now = Binding(
        topic_id=present.topic_id,
        table_id=present.table_id or str(table.identity(spark, topic)),
        table_settings=_table_settings(topic),
        starting_offsets=topic.settings.kafka.starting_offsets,
        first_batch=present.next_batch,
    )
    if found:
        # A batch that was lost is written again: under another identity, beside what the table
        # has of it.
        has_lost = (
            present.table_id != found.table_id or _lost(found, topic, present)
        ) and not losses.has_planned(present)
        begins_again = rebind and present.planned is None
        now = replace(
            now,
            generation=found.generation + bool(has_lost),
            starting_offsets=now.starting_offsets if begins_again else found.starting_offsets,
            first_batch=now.first_batch if has_lost or begins_again else found.first_batch,
        )
    if now != found:
        checkpoint.files.write(FILE, json.dumps(asdict(now), indent=2))
    return now


def check(spark: SparkSession, topic: Topic, bound: Binding) -> None:
    """Sees that topic and table are still those that a running query was bound to.

    Raises:
        RefusedError: one of them was replaced since; nothing was written.
    """
    topic_id = kafka_topics.topic_id(topic.settings, topic.name)
    problem = _replaced(bound, topic, topic_id, table.identity(spark, topic))
    if problem:
        raise RefusedError(problem)


def check_bound(spark: SparkSession, topic: Topic) -> None:
    """The same for what is done beside the query, or without one.

    Raises:
        RefusedError: as ``check``.
    """
    bound = _read(Checkpoint(spark, topic.checkpoint, topic.name))
    if bound:
        check(spark, topic, bound)


def find_problem(spark: SparkSession, topic: Topic) -> str | None:
    """What no longer belongs together, and what to do; None if all does. Writes nothing."""
    checkpoint = Checkpoint(spark, topic.checkpoint, topic.name)
    found = _read(checkpoint)
    present = look(spark, topic, checkpoint, found.generation if found else 0)
    return _problem(found, topic, present)


def _read(checkpoint: Checkpoint) -> Binding | None:
    text = checkpoint.files.read(FILE)
    if not text:
        return None
    known = {each.name for each in fields(Binding)}  # one written under another guarantee has more
    return Binding(**{name: value for name, value in json.loads(text).items() if name in known})


def _problem(found: Binding | None, topic: Topic, present: Present) -> str | None:
    """What no longer fits together; None if all does."""
    if found is None:
        return _problem_of_new(topic, present)
    return (
        _replaced(found, topic, present.topic_id, present.table_id)
        or _lost(found, topic, present)
        or _changed(found, topic)
    )


def _problem_of_new(topic: Topic, present: Present) -> str | None:
    """Why a checkpoint without a binding cannot be bound; None if it can."""
    if present.planned is not None:
        return (
            f"The checkpoint {topic.checkpoint} was not made by this pipeline: it has batches but "
            f"no {FILE}. Nothing was written. Name another checkpoint_location, or accept it with: "
            f"run --rebind {topic.name}"
        )
    label = losses.newest_label(present)
    if label is None:
        return None
    return (
        f"The checkpoint {topic.checkpoint} is new, but the table {topic.location} was fed by "
        f"another one, up to the offsets {label['ends']}. Nothing was written. To go on there: "
        f"{command_to_go_on(topic.name, label['ends'])}. "
        "To read the topic again from kafka.starting_offsets on, over what the table holds: "
        f"run --rebind {topic.name}"
    )


def _replaced(found: Binding, topic: Topic, topic_id: str, table_id: str | None) -> str | None:
    """Why the topic or the table is no longer the one that was bound; None if both are."""
    if topic_id != found.topic_id:
        return (
            f"The topic {topic.name} was recreated (its id was {found.topic_id}, now {topic_id}), "
            f"so the offsets in {topic.checkpoint} and in {topic.location} mean other records. "
            f'Nothing was written. Set topic."{topic.name}".location to another and remove the '
            "checkpoint's folder, then read the new topic from its start with: run"
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


def _lost(found: Binding, topic: Topic, present: Present) -> str | None:
    """Which batches the table or the checkpoint has lost since; None if neither has."""
    return (
        losses.set_back(topic, present, found.first_batch)
        or losses.of_checkpoint(topic, present)
        or losses.of_another(topic, present)
    )


def _changed(found: Binding, topic: Topic) -> str | None:
    """Why the table's settings do not go with the rows that are there; None if they do."""
    now = _table_settings(topic)
    # An earlier release may have kept more of them, or fewer.
    before = {name: found.table_settings.get(name, value) for name, value in now.items()}
    if now == before:
        return None
    return (
        f"The table settings of {topic.name} were {before} when {topic.checkpoint} "
        f"was made and are {now} now. Nothing was written. Put them back; or give the topic a new "
        "table and checkpoint."
    )


def _table_settings(topic: Topic) -> dict[str, Any]:
    """What cannot be changed under a table that has rows."""
    return topic.table.model_dump(include={"partition_columns"})
