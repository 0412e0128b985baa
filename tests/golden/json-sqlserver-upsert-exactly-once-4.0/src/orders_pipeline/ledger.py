"""The pipeline's own two tables beside those of the topics: who writes, and what was written.

- ``_ingest_writers``: table_id, writer; the process that writes the table now
- ``_ingest_batches``: table_id, table_name, pipeline, batch, label, refused, attempt, written_at;
  the newest batch of each pipeline, noted in its own transaction

A table is known by the number that SQL Server gave it: one made anew has no batches.
"""

import json
import logging
import uuid
from typing import Any

from .batch import Batch, Refused
from .catalog import number_of
from .database import Connection, quoted
from .database_errors import DatabaseError
from .errors import RefusedError
from .settings import Topic

WRITERS, BATCHES = "_ingest_writers", "_ingest_batches"
WRITER = str(uuid.uuid4())
"""This process, among those that write a table."""
log = logging.getLogger(__name__)
SHAPES = {
    WRITERS: "table_id int NOT NULL PRIMARY KEY, writer nvarchar(40)",
    BATCHES: "table_id int NOT NULL, table_name nvarchar(128), pipeline nvarchar(100) NOT NULL, "
    "batch bigint, label nvarchar(max), refused nvarchar(max), attempt nvarchar(40), "
    "written_at datetimeoffset(6), PRIMARY KEY (table_id, pipeline)",
}


def prepare(connection: Connection, topic: Topic) -> None:
    """Makes the two tables where they are missing."""
    for name, shape in SHAPES.items():
        if number_of(connection, topic.table.schema_name, name) is None:
            connection.execute(f"CREATE TABLE {_ours(topic, name)} ({shape})")


def take_over(connection: Connection, topic: Topic) -> None:
    """Makes this process the one that writes the topic's batches."""
    table_id = _number(connection, topic)
    writers = _ours(topic, WRITERS)
    change = f"UPDATE {writers} SET writer = ? WHERE table_id = ?"
    if not connection.execute(change, WRITER, table_id):
        add = f"INSERT INTO {writers} (table_id, writer) VALUES (?, ?)"
        connection.execute(add, table_id, WRITER)


def lock(connection: Connection, topic: Topic) -> None:
    """Lets one transaction at a time write the table, until it ends.

    It waits for as long as another holds the lock, as a backfill may, for longer than any lock is
    waited for elsewhere: nothing that others wait for is done before it in its transaction.
    """
    change = f"UPDATE {_ours(topic, WRITERS)} SET writer = writer WHERE table_id = ?"
    number = _number(connection, topic)
    while True:
        try:
            connection.execute(change, number)
            return
        except DatabaseError as error:
            if not error.is_of_a_wait:
                raise
            log.warning(
                "waits to write to %s, which another does now, as a backfill may. It goes on by "
                "itself, and writes nothing before",
                topic.location,
            )


def check_writer(connection: Connection, topic: Topic) -> None:
    """Sees that no other process has begun to write the topic's batches since this one did.

    Raises:
        RefusedError: one has; of the batch in hand nothing was written.
    """
    found = connection.query(
        f"SELECT writer FROM {_ours(topic, WRITERS)} WHERE table_id = ?",
        _number(connection, topic),
    )
    if found != [(WRITER,)]:
        raise RefusedError(
            f"Another process writes the table {topic.location} now. Nothing of this batch was "
            "written. Let one process run for each checkpoint."
        )


def note(
    connection: Connection, batch: Batch, topic: Topic, refused: list[Refused], attempt: str
) -> None:
    """Writes down that the table has a batch, in the transaction that writes it."""
    key = {"table_id": _number(connection, topic), "pipeline": batch.pipeline}
    values = {
        "table_name": topic.table_name,
        "batch": batch.id,
        "label": json.dumps(batch.label()),
        "refused": json.dumps(refused),
        "attempt": attempt,
    }
    batches = _ours(topic, BATCHES)
    # By the server's clock: those of two machines that feed a table may differ.
    changes = ", ".join([*(f"{name} = ?" for name in values), "written_at = SYSDATETIMEOFFSET()"])
    change = f"UPDATE {batches} SET {changes} WHERE table_id = ? AND pipeline = ?"
    if not connection.execute(change, *values.values(), *key.values()):
        names, places = ", ".join([*values, *key]), ", ".join("?" * len([*values, *key]))
        add = f"INSERT INTO {batches} ({names}, written_at) VALUES ({places}, SYSDATETIMEOFFSET())"
        connection.execute(add, *values.values(), *key.values())


def is_noted(connection: Connection, topic: Topic, attempt: str) -> bool:
    """True when the transaction of this attempt was committed, whatever was heard of it."""
    found = connection.query(
        f"SELECT batch FROM {_ours(topic, BATCHES)} WHERE table_id = ? AND attempt = ?",
        *(_number(connection, topic), attempt),
    )
    return bool(found)


def refused_of(connection: Connection, topic: Topic, pipeline: str) -> list[Refused]:
    """The rows of a pipeline's newest batch that the table refused."""
    found = connection.query(
        f"SELECT refused FROM {_ours(topic, BATCHES)} WHERE table_id = ? AND pipeline = ?",
        *(_number(connection, topic), pipeline),
    )
    return [Refused(*each) for each in json.loads(found[0][0])] if found else []


def newest_labels(connection: Connection, topic: Topic) -> list[dict[str, Any]]:
    """The label of the newest batch of each pipeline, the newest first."""
    if number_of(connection, topic.table.schema_name, BATCHES) is None:
        return []
    found = connection.query(
        f"SELECT label FROM {_ours(topic, BATCHES)} WHERE table_id = ? ORDER BY written_at DESC",
        _number(connection, topic),
    )
    return [json.loads(label) for (label,) in found]


def _number(connection: Connection, topic: Topic) -> int:
    """The topic's table; -1, which no table has, where it is gone."""
    found = number_of(connection, topic.table.schema_name, topic.table_name)
    return -1 if found is None else found


def _ours(topic: Topic, name: str) -> str:
    return f"{quoted(topic.table.schema_name)}.{quoted(name)}"
