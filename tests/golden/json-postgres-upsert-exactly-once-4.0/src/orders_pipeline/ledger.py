"""The pipeline's own two tables beside those of the topics: who writes, and what was written.

- ``_ingest_writers``: table_id, writer; the process that writes the table now
- ``_ingest_batches``: table_id, table_name, pipeline, batch, label, refused, attempt, written_at;
  the newest batch of each pipeline, noted in its own transaction

A table is known by the number that PostgreSQL gave it: one made anew has no batches.
"""

import json
import uuid
from typing import Any, LiteralString

from psycopg import sql

from .batch import Batch, Refused
from .database import Connection, table_of
from .errors import RefusedError
from .settings import Topic

WRITERS, BATCHES = "_ingest_writers", "_ingest_batches"
WRITER = str(uuid.uuid4())
"""This process, among those that write a table."""


def prepare(connection: Connection, topic: Topic) -> None:
    """Makes the two tables where they are missing."""
    # Two that make a table at once would meet in the catalog.
    connection.execute("SELECT pg_advisory_xact_lock(hashtext('_ingest_batches'))")
    connection.execute(
        _sql(
            topic,
            "CREATE TABLE IF NOT EXISTS {writers} (table_id oid PRIMARY KEY, writer text)",
        )
    )
    connection.execute(
        _sql(
            topic,
            "CREATE TABLE IF NOT EXISTS {batches} (table_id oid, table_name text, "
            "pipeline text, batch bigint, label jsonb, refused jsonb, attempt text, "
            "written_at timestamptz DEFAULT now(), PRIMARY KEY (table_id, pipeline))",
        )
    )


def take_over(connection: Connection, topic: Topic) -> None:
    """Makes this process the one that writes the topic's batches."""
    connection.execute(
        _sql(
            topic,
            "INSERT INTO {writers} VALUES ({table}, {writer}) "
            "ON CONFLICT (table_id) DO UPDATE SET writer = excluded.writer",
            writer=WRITER,
        )
    )


def lock(connection: Connection, topic: Topic) -> None:
    """Lets one transaction at a time write the table, until it ends."""
    connection.execute(_sql(topic, "SELECT FROM {writers} WHERE table_id = {table} FOR UPDATE"))


def check_writer(connection: Connection, topic: Topic) -> None:
    """Sees that no other process has begun to write the topic's batches since this one did.

    Raises:
        RefusedError: one has; of the batch in hand nothing was written.
    """
    found = connection.execute(
        _sql(topic, "SELECT writer FROM {writers} WHERE table_id = {table}")
    ).fetchone()
    if found != (WRITER,):
        raise RefusedError(
            f"Another process writes the table {topic.location} now. Nothing of this batch was "
            "written. Let one process run for each checkpoint."
        )


def note(
    connection: Connection, batch: Batch, topic: Topic, refused: list[Refused], attempt: str
) -> None:
    """Writes down that the table has a batch, in the transaction that writes it."""
    connection.execute(
        _sql(
            topic,
            "INSERT INTO {batches} VALUES ({table}, {name}, {pipeline}, {batch}, {label}::jsonb, "
            "{refused}::jsonb, {attempt}, now()) ON CONFLICT (table_id, pipeline) DO UPDATE SET "
            "batch = excluded.batch, label = excluded.label, refused = excluded.refused, "
            "attempt = excluded.attempt, written_at = excluded.written_at",
            pipeline=batch.pipeline,
            batch=batch.id,
            label=json.dumps(batch.label()),
            refused=json.dumps(refused),
            attempt=attempt,
        )
    )


def is_noted(connection: Connection, topic: Topic, attempt: str) -> bool:
    """True when the transaction of this attempt was committed, whatever was heard of it."""
    found = connection.execute(
        _sql(
            topic,
            "SELECT FROM {batches} WHERE table_id = {table} AND attempt = {attempt}",
            attempt=attempt,
        )
    )
    return found.fetchone() is not None


def refused_of(connection: Connection, topic: Topic, pipeline: str) -> list[Refused]:
    """The rows of a pipeline's newest batch that the table refused."""
    found = connection.execute(
        _sql(
            topic,
            "SELECT refused FROM {batches} WHERE table_id = {table} AND pipeline = {pipeline}",
            pipeline=pipeline,
        )
    ).fetchone()
    return [Refused(*each) for each in found[0]] if found else []


def newest_labels(connection: Connection, topic: Topic) -> list[dict[str, Any]]:
    """The label of the newest batch of each pipeline, the newest first."""
    if not _is_there(connection, topic):
        return []
    found = connection.execute(
        _sql(
            topic,
            "SELECT label FROM {batches} WHERE table_id = {table} ORDER BY written_at DESC",
        )
    )
    return [label for (label,) in found]


def _is_there(connection: Connection, topic: Topic) -> bool:
    named = sql.Identifier(topic.table.schema_name, BATCHES).as_string()
    found = connection.execute(sql.SQL("SELECT to_regclass({})").format(named)).fetchone()
    return found is not None and found[0] is not None


def _sql(topic: Topic, text: LiteralString, **values: Any) -> sql.Composed:
    schema = topic.table.schema_name
    return sql.SQL(text).format(
        writers=sql.Identifier(schema, WRITERS),
        batches=sql.Identifier(schema, BATCHES),
        table=sql.SQL("to_regclass({})::oid").format(table_of(topic).as_string()),
        name=topic.table_name,
        **values,
    )
