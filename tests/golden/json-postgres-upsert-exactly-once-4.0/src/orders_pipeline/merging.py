"""One batch into the database: staged by Spark, merged and noted in one transaction, or not at all.

A row that the table refuses is left out, the rest is staged again: of a key whose newest record is
refused the one before it then counts.
"""

import uuid
from collections.abc import Callable

import psycopg
from psycopg import sql
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from . import ledger, table
from .batch import Batch, Refused, Written
from .column_types import unfit
from .counting import every, observe
from .database import Connection, connect, passes_by, told_while_slow, try_again
from .delivery import AFTER_A_FAILURE
from .errors import BatchError, NoAnswerError, SettingsError
from .halving import REFUSALS, refused_rows
from .misfits import unfit_rows, without
from .settings import Topic
from .staging import Begin, Merge, Staging, staged

MAX_REFUSED = 100
"""With more rows in a batch that the table refuses than this, it is the table that is wrong."""
MAX_REFUSED_IN_A_FILL = 10_000
"""A backfill or a replay is one batch, of the records of many."""
EVERY = sql.SQL("TRUE")
Choose = Callable[[DataFrame, dict[str, str]], DataFrame]
"""Which of the rows are merged; it is told the table's columns, with their types."""


class _RefusedRows(Exception):
    def __init__(self, rows: list[Refused]) -> None:
        self.rows = rows


def merge(
    rows: DataFrame,
    topic: Topic,
    choose: Choose,
    begin: Begin,
    batch: Batch | None,
) -> Written:
    """Stages those of *rows* (``shapes.py``) that ``choose`` gives, and has them merged.

    With a ``batch``, it is noted in the same transaction.

    Raises:
        NoAnswerError, SettingsError: see ``database.connect``; nothing was written.
        RefusedError: another process writes the table now; nothing was written.
        BatchError: the database's disk is full; or the table took no row, or refuses too many; or
            it is not known whether the batch was written.
    """
    begin = _checked(begin)
    refused: list[Refused] = []
    limit = MAX_REFUSED if batch else MAX_REFUSED_IN_A_FILL
    try:
        while True:
            try:
                return _merge_without(refused, limit, rows, topic, choose, begin, batch)
            except _RefusedRows as found:
                more = found.rows
            refused += more
            if not more or len(refused) > limit:
                raise BatchError(
                    f"The table {topic.location} refuses rows of {topic.name}: more than "
                    f"{limit:,} of a batch, or none that is found; the first for "
                    f"{refused[0].message if refused else 'no reason of its own'}. Nothing of the "
                    f"batch was written. Look at its constraints, then {AFTER_A_FAILURE}."
                )
    except psycopg.errors.DiskFull as error:
        database = topic.settings.database
        raise BatchError(
            f"The disk of the database {database.name} at {database.host}:{database.port} is full "
            f"(SQLSTATE {error.sqlstate}): the table {topic.location} took no rows of "
            f"{topic.name}. Nothing of the batch was written. Make room, also for a copy of the "
            f"batch beside the table, then {AFTER_A_FAILURE}."
        ) from error
    except psycopg.Error as error:
        why = error.diag.message_primary or type(error).__name__
        raise BatchError(
            f"The table {topic.location} took no rows of {topic.name}: {why} (SQLSTATE "
            f"{error.sqlstate}). Nothing of the batch was written. Mend that, then "
            f"{AFTER_A_FAILURE}."
        ) from error


def _merge_without(
    refused: list[Refused],
    limit: int,
    rows: DataFrame,
    topic: Topic,
    choose: Choose,
    begin: Begin,
    batch: Batch | None,
) -> Written:
    transaction = uuid.uuid4().hex
    done: list[Written] = []

    def attempt() -> Written:
        with connect(topic) as connection:
            there = table.columns_of(connection, topic)
            candidates, why = without(rows, refused), unfit(rows.schema, there)
            counted, counts = observe(candidates, received=every(), misfits=F.count(why))
            chosen = choose(counted.where(why.isNull()), there)
            with staged(chosen, topic, connection, there) as staging:
                found = int(counts.get["misfits"])
                misfits = unfit_rows(candidates, why, found, topic) if found else []
                with told_while_slow(connection, topic):
                    return commit(connection, staging, int(counts.get["received"]), misfits)

    def commit(
        connection: Connection, staging: Staging, received: int, misfits: list[Refused]
    ) -> Written:
        try:
            with connection.transaction():
                ledger.lock(connection, topic)
                if done and ledger.is_noted(connection, topic, transaction):
                    return done[-1]  # of an earlier attempt, whose commit was not heard of
                done.clear()
                written, deleted = begin(connection, topic, staging)(EVERY)
                result = Written(
                    received=received + len(refused),
                    written=written,
                    deleted=deleted,
                    deduplicated=received - len(misfits) - staging.rows,
                    stale=staging.rows - written - deleted,
                    refused=[*refused, *misfits],
                )
                if batch:
                    ledger.check_writer(connection, topic)
                    ledger.note(connection, batch, topic, result.refused, transaction)
                done.append(result)
        except REFUSALS:
            left = limit + 1 - len(refused)
            raise _RefusedRows(refused_rows(connection, topic, staging, begin, left)) from None
        except psycopg.Error as error:
            if not passes_by(error):
                done.clear()  # the server has answered: nothing of it is there
            raise
        return done[-1]

    try:
        return try_again(attempt)
    except (psycopg.OperationalError, NoAnswerError, SettingsError) as error:
        if not done:
            raise
        raise BatchError(
            f"The connection was lost while a batch of {topic.name} was committed to the table "
            f"{topic.location}, and not had again ({type(error).__name__}). All of the batch may "
            f"be there, or nothing of it. Once the database answers, {AFTER_A_FAILURE}."
        ) from error


def _checked(begin: Begin) -> Begin:
    """Merges also fail by the constraints that would wait for the commit."""

    def begin_checked(connection: Connection, topic: Topic, staging: Staging) -> Merge:
        merge = begin(connection, topic, staging)

        def merge_and_check(part: sql.Composable) -> tuple[int, int]:
            done = merge(part)
            connection.execute("SET CONSTRAINTS ALL IMMEDIATE")
            return done

        return merge_and_check

    return begin_checked
