"""Finds the rows that a table refuses, by trying halves of a batch, and halves of those."""

from collections.abc import Callable

from .batch import Refused
from .database import Connection
from .database_errors import DatabaseError
from .errors import BatchError
from .settings import Topic
from .staging import Begin, Staging


def refused_rows(
    connection: Connection, topic: Topic, staging: Staging, begin: Begin, limit: int
) -> list[Refused]:
    """The rows that a merge fails with, ``limit`` of them at most. Writes nothing to the table.

    Each of them alone; where none does, those that fail beside the rows before them: of two that
    want one value in a unique column, the second.
    """

    def failure(part: str) -> DatabaseError | None:
        try:
            with connection.transaction(keep=False):
                merge(part)
        except DatabaseError as error:
            if not error.refuses:
                raise
            return error
        return None

    # A task that failed may have used up some of the numbers.
    [(first, last)] = connection.query(f"SELECT min(_row), max(_row) FROM {staging.name}")
    merge = begin(connection, topic, staging)
    errors = _failing(first, last, limit, failure, _alone)
    errors = errors or _failing(first, last, limit, failure, _with_those_before)
    for error in errors.values():
        _check_is_the_rows(error, topic, staging)
    return [_refused(connection, staging, row, error) for row, error in errors.items()]


def _failing(
    first: int,
    last: int,
    limit: int,
    failure: Callable[[str], DatabaseError | None],
    part: Callable[[int, int, list[int]], str],
) -> dict[int, DatabaseError]:
    """The rows that fail, from the first on, by their numbers; ``part`` says what is tried."""
    pending, found = [(first, last)], dict[int, DatabaseError]()
    while pending and len(found) < limit:
        first, last = pending.pop()
        error = failure(part(first, last, list(found)))
        if error and first < last:
            middle = (first + last) // 2
            pending += [(middle + 1, last), (first, middle)]
        elif error:
            found[first] = error
    return found


def _alone(first: int, last: int, found: list[int]) -> str:
    return f"staged._row BETWEEN {first} AND {last}"


def _with_those_before(first: int, last: int, found: list[int]) -> str:
    # No savepoint, beside which to try the next: some errors end SQL Server's whole transaction.
    without = f" AND staged._row NOT IN ({', '.join(map(str, found))})" if found else ""
    return f"staged._row <= {last}{without}"


def _check_is_the_rows(error: DatabaseError, topic: Topic, staging: Staging) -> None:
    ours = [name.lower() for name in staging.values]
    if error.is_null and error.column and error.column.lower() not in ours:
        raise BatchError(
            f"The table {topic.location} wants a value in {error.column}, which the pipeline does "
            "not have. Nothing was written. Give it a default, then start again."
        )


def _refused(connection: Connection, staging: Staging, row: int, error: DatabaseError) -> Refused:
    where = f"{staging.values['_partition']}, {staging.values['_offset']}"
    found = f"SELECT {where} FROM {staging.name} AS staged WHERE staged._row = ?"
    [(partition, offset)] = connection.query(found, row)
    return Refused(int(partition), int(offset), error.reason)
