"""Finds the rows that a table refuses, by trying halves of a batch, and halves of those."""

import psycopg
from psycopg import sql

from . import ledger
from .batch import Refused
from .database import Connection
from .errors import BatchError
from .settings import Topic
from .staging import Begin, Staging

REFUSALS = (
    psycopg.DataError,  # a value that does not fit
    psycopg.IntegrityError,  # a constraint
    psycopg.errors.ProgramLimitExceeded,  # a key too long for an index
    psycopg.errors.StatementTooComplex,  # JSON that nests too deep
    psycopg.errors.RaiseException,  # a trigger's own word
)


def refused_rows(
    connection: Connection, topic: Topic, staging: Staging, begin: Begin, limit: int
) -> list[Refused]:
    """The rows that a merge fails with, ``limit`` of them at most. Writes nothing.

    Each of them fails alone or beside those before it: of two that want one value in a unique
    column, the second.
    """
    number = sql.Identifier(_unused_name(staging))
    numbered = sql.SQL("ALTER TABLE {} ADD COLUMN {} bigserial PRIMARY KEY")
    connection.execute(numbered.format(staging.name, number))
    pending, found = [(1, staging.rows)], list[Refused]()
    with connection.transaction(force_rollback=True):
        ledger.lock(connection, topic)
        merge = begin(connection, topic, staging)
        while pending and len(found) < limit:
            first, last = pending.pop()
            part = sql.SQL("staged.{} BETWEEN {} AND {}").format(number, first, last)
            try:
                with connection.transaction():  # a part that passes stays until the end
                    merge(part)
            except REFUSALS as error:
                if first < last:
                    middle = (first + last) // 2
                    pending += [(middle + 1, last), (first, middle)]
                else:
                    _check_is_the_rows(error, topic, staging)
                    found.append(_refused(connection, staging, number, first, error))
    return found


def _unused_name(staging: Staging) -> str:
    """A name for a column that none of the rows' has."""
    name = "_row"
    while name in staging.values:
        name += "_"
    return name


def _check_is_the_rows(error: psycopg.Error, topic: Topic, staging: Staging) -> None:
    column = error.diag.column_name
    if isinstance(error, psycopg.errors.NotNullViolation) and column not in staging.values:
        raise BatchError(
            f"The table {topic.location} wants a value in {column}, which the pipeline does not "
            "have. Nothing was written. Give it a default, then start again."
        )


def _refused(
    connection: Connection,
    staging: Staging,
    number: sql.Identifier,
    row: int,
    error: psycopg.Error,
) -> Refused:
    """Where the row is, and why in words that have nothing of its values in them."""
    where = sql.SQL("SELECT _partition, _offset FROM {} WHERE {} = {}")
    found = connection.execute(where.format(staging.name, number, row)).fetchone()
    assert found  # noqa: S101  # the row was just tried
    named = error.diag.constraint_name or error.diag.column_name
    kind = type(error).__name__
    return Refused(int(found[0]), int(found[1]), f"{kind} of {named}" if named else kind)
