"""One batch into the database: staged by Spark, merged and noted in one transaction, or not at all.

A row that the table refuses is left out, the rest is staged again: of a key whose newest record is
refused the one before it then counts.
"""

import uuid

import psycopg
from psycopg import sql
from pyspark.sql import DataFrame

from . import ledger
from .batch import Batch, Refused, Written
from .counting import every, observe
from .database import Connection, connect, passes_by, told_while_slow, try_again
from .delivery import AFTER_A_FAILURE
from .errors import BatchError, NoAnswerError
from .halving import REFUSALS, refused_rows
from .settings import Topic
from .staging import Apply, Choose, NulError, Staging, rows_with_nul, staged, without

MAX_REFUSED = 100
"""With more refused rows in a batch than this, it is the table that is wrong."""
EVERY = sql.SQL("TRUE")


class _RefusedRows(Exception):
    def __init__(self, rows: list[Refused]) -> None:
        self.rows = rows


def merge(
    rows: DataFrame,
    topic: Topic,
    choose: Choose,
    apply: Apply,
    batch: Batch | None,
) -> Written:
    """Stages those of *rows* (``shapes.py``) that ``choose`` gives and has ``apply`` merge them.

    With a ``batch``, it is noted in the same transaction.

    Raises:
        NoAnswerError: the database does not answer; nothing was written.
        RefusedError: another process writes the table now; nothing was written.
        BatchError: the database's disk is full; or the table took no row, or refuses too many; or
            it is not known whether the batch was written.
    """
    apply = _checked(apply)
    refused: list[Refused] = []
    try:
        while True:
            try:
                return _merge_without(refused, rows, topic, choose, apply, batch)
            except NulError:
                more = rows_with_nul(without(rows, refused), MAX_REFUSED + 1 - len(refused))
            except _RefusedRows as found:
                more = found.rows
            refused += more
            if not more or len(refused) > MAX_REFUSED:
                raise BatchError(
                    f"The table {topic.location} refuses rows of {topic.name}: more than "
                    f"{MAX_REFUSED} of a batch, or none that is found; the first for "
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
    rows: DataFrame,
    topic: Topic,
    choose: Choose,
    apply: Apply,
    batch: Batch | None,
) -> Written:
    transaction = uuid.uuid4().hex
    done: list[Written] = []

    def attempt() -> Written:
        accepted, counts = observe(without(rows, refused), received=every())
        with (
            connect(topic) as connection,
            staged(accepted, choose, topic, connection) as staging,
            told_while_slow(connection, topic),
        ):
            received = int(counts.get["received"])
            try:
                with connection.transaction():
                    ledger.lock(connection, topic)
                    if done and ledger.is_noted(connection, topic, transaction):
                        return done[-1]  # of an earlier attempt, whose commit was not heard of
                    done.clear()
                    written, deleted = apply(connection, topic, staging, EVERY)
                    result = Written(
                        received=received + len(refused),
                        written=written,
                        deleted=deleted,
                        deduplicated=received - staging.rows,
                        stale=staging.rows - written - deleted,
                        refused=refused,
                    )
                    if batch:
                        ledger.check_writer(connection, topic)
                        ledger.note(connection, batch, topic, refused, transaction)
                    done.append(result)
            except REFUSALS:
                more = MAX_REFUSED + 1 - len(refused)
                raise _RefusedRows(refused_rows(connection, topic, staging, apply, more)) from None
            except psycopg.Error as error:
                if not passes_by(error):
                    done.clear()  # the server has answered: nothing of it is there
                raise
        return done[-1]

    try:
        return try_again(attempt)
    except (psycopg.OperationalError, NoAnswerError) as error:
        if not done:
            raise
        raise BatchError(
            f"The connection was lost while a batch of {topic.name} was committed to the table "
            f"{topic.location}, and not had again ({type(error).__name__}). All of the batch may "
            f"be there, or nothing of it. Once the database answers, {AFTER_A_FAILURE}."
        ) from error


def _checked(apply: Apply) -> Apply:
    """What also fails by the constraints that would wait for the commit."""

    def apply_and_check(
        connection: Connection, topic: Topic, staging: Staging, part: sql.Composable
    ) -> tuple[int, int]:
        done = apply(connection, topic, staging, part)
        connection.execute("SET CONSTRAINTS ALL IMMEDIATE")
        return done

    return apply_and_check
