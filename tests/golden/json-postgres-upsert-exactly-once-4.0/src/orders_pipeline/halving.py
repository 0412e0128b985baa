"""Finds the rows that a table refuses, by trying halves of a batch, and halves of those."""

import psycopg
from psycopg import sql

from .batch import Refused
from .database import Connection
from .errors import BatchError
from .settings import Topic
from .staging import Apply, Staging

REFUSALS = (psycopg.DataError, psycopg.IntegrityError, psycopg.errors.ProgramLimitExceeded)
"""A value that does not fit, a constraint, a key too long for an index."""


def refused_rows(
    connection: Connection, topic: Topic, staging: Staging, apply: Apply, limit: int
) -> list[Refused]:
    """The rows that ``apply`` fails with, each alone; ``limit`` of them at most. Writes nothing."""
    number = sql.SQL("ALTER TABLE {} ADD COLUMN _row bigint GENERATED ALWAYS AS IDENTITY")
    connection.execute(number.format(staging.name))
    pending, found = [(1, staging.rows)], list[Refused]()
    while pending and len(found) < limit:
        first, last = pending.pop()
        part = sql.SQL("staged._row BETWEEN {} AND {}").format(first, last)
        try:
            with connection.transaction(force_rollback=True):
                apply(connection, topic, staging, part)
        except REFUSALS as error:
            if first < last:
                middle = (first + last) // 2
                pending += [(middle + 1, last), (first, middle)]
            else:
                _check_is_the_rows(error, topic, staging)
                found.append(_refused(connection, staging, first, error))
    return found


def _check_is_the_rows(error: psycopg.Error, topic: Topic, staging: Staging) -> None:
    column = error.diag.column_name
    if isinstance(error, psycopg.errors.NotNullViolation) and column not in staging.values:
        raise BatchError(
            f"The table {topic.location} wants a value in {column}, which the pipeline does not "
            "have. Nothing was written. Give it a default, then start again."
        )


def _refused(connection: Connection, staging: Staging, row: int, error: psycopg.Error) -> Refused:
    """Where the row is, and why in words that have nothing of its values in them."""
    found = connection.execute(
        sql.SQL("SELECT _partition, _offset FROM {} WHERE _row = {}").format(staging.name, row)
    ).fetchone()
    assert found  # noqa: S101  # the row was just tried
    named = error.diag.constraint_name or error.diag.column_name
    kind = type(error).__name__
    return Refused(int(found[0]), int(found[1]), f"{kind} of {named}" if named else kind)
