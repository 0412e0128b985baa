"""Finds the rows that a table refuses, by trying halves of a batch, and halves of those."""

from .batch import Refused
from .database import Connection
from .database_errors import DatabaseError
from .errors import BatchError
from .settings import Topic
from .staging import Apply, Staging


def refused_rows(
    connection: Connection, topic: Topic, staging: Staging, apply: Apply, limit: int
) -> list[Refused]:
    """The rows that ``apply`` fails with, each alone; ``limit`` of them at most. Writes nothing."""
    # A task that failed may have used up some of the numbers.
    numbers = f"SELECT min(_row), max(_row) FROM {staging.name}"
    pending, found = list(connection.query(numbers)), list[Refused]()
    while pending and len(found) < limit:
        first, last = pending.pop()
        part = f"staged._row BETWEEN {first} AND {last}"
        try:
            with connection.transaction(keep=False):
                apply(connection, topic, staging, part)
        except DatabaseError as error:
            if not error.refuses:
                raise
            if first < last:
                middle = (first + last) // 2
                pending += [(middle + 1, last), (first, middle)]
            else:
                _check_is_the_rows(error, topic, staging)
                found.append(_refused(connection, staging, first, error))
    return found


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
