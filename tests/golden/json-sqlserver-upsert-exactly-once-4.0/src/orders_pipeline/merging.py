"""One batch into the database: staged by Spark, merged and noted in one transaction, or not at all.

A row that the table refuses is left out, the rest is staged again: of a key whose newest record is
refused the one before it then counts.
"""

import uuid
from collections.abc import Callable

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from . import ledger
from .batch import Batch, Refused, Written
from .catalog import Held, columns_of
from .counting import every, observe
from .database import connect, try_again
from .database_errors import DatabaseError
from .delivery import AFTER_A_FAILURE
from .errors import BatchError, NoAnswerError, SettingsError
from .halving import refused_rows
from .misfits import unfit_rows, without
from .settings import Topic
from .staging import Begin, is_mark, staged, unfit

MAX_REFUSED = 100
"""With more rows in a batch that the table refuses than this, it is the table that is wrong."""
MAX_REFUSED_IN_A_FILL = 1_000
"""A backfill or a replay is one batch, of the records of many. They may stand in one statement."""
EVERY = "1 = 1"


class _RefusedRows(Exception):
    def __init__(self, rows: list[Refused]) -> None:
        self.rows = rows


def merge(
    rows: DataFrame,
    topic: Topic,
    keys: list[str],
    choose: Callable[[DataFrame], DataFrame],
    begin: Begin,
    batch: Batch | None,
) -> Written:
    """Stages those of *rows* (``shapes.py``) that ``choose`` gives, and has them merged.

    With a ``batch``, it is noted in the same transaction.

    Raises:
        NoAnswerError, SettingsError: see ``database.connect``; nothing was written.
        RefusedError: another process writes the table now; nothing was written.
        BatchError: the table took no row, or refuses too many; or it is not known whether the batch
            was written.
    """
    refused: list[Refused] = []
    limit = MAX_REFUSED if batch else MAX_REFUSED_IN_A_FILL
    try:
        while True:
            try:
                return _merge_without(refused, limit, rows, topic, keys, choose, begin, batch)
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
    except DatabaseError as error:
        raise BatchError(
            f"The table {topic.location} took no rows of {topic.name}: {error.reason}. Nothing of "
            f"the batch was written. Mend that, then {AFTER_A_FAILURE}."
        ) from error


def _merge_without(
    refused: list[Refused],
    limit: int,
    rows: DataFrame,
    topic: Topic,
    keys: list[str],
    choose: Callable[[DataFrame], DataFrame],
    begin: Begin,
    batch: Batch | None,
) -> Written:
    there = try_again(lambda: _columns(topic))
    lacking = [c for c in rows.columns if not is_mark(c, keys) and c.lower() not in there]
    if lacking:
        raise BatchError(
            f"The table {topic.location} lacks the columns {lacking}, which it had at the start. "
            f"Nothing of the batch was written. Put them back, then {AFTER_A_FAILURE}."
        )
    why = unfit(rows.schema, there, keys)
    candidates = without(rows, refused)
    counted, counts = observe(candidates, received=every(), misfits=F.count(why))
    # Kept, and read once before they are written: no count ever comes from Spark's JDBC writer.
    chosen = choose(counted.where(why.isNull())).persist()
    transaction = uuid.uuid4().hex
    done: list[Written] = []

    def attempt() -> Written:
        with (
            connect(topic) as connection,
            staged(chosen, count, topic, connection, there, keys, batch is not None) as staging,
        ):
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
                        deduplicated=received - len(misfits) - count,
                        stale=count - written - deleted,
                        refused=[*refused, *misfits],
                    )
                    if batch:
                        ledger.check_writer(connection, topic)
                        ledger.note(connection, batch, topic, result.refused, transaction)
                    done.append(result)
            except DatabaseError as error:
                if not error.passes_by:
                    done.clear()  # the server has answered: nothing of it is there
                if not error.refuses:
                    raise
                left = limit + 1 - len(refused)
                more = refused_rows(connection, topic, staging, begin, left)
                raise _RefusedRows(more) from None
        return done[-1]

    try:
        [(count,)] = chosen.agg(every()).collect()
        received = int(counts.get["received"])
        found = int(counts.get["misfits"])
        misfits = unfit_rows(candidates, why, found, topic) if found else []
        return try_again(attempt)
    except (DatabaseError, NoAnswerError, SettingsError) as error:
        if not done:
            raise
        raise BatchError(
            f"The connection was lost while a batch of {topic.name} was committed to the table "
            f"{topic.location}, and not had again ({type(error).__name__}). All of the batch may "
            f"be there, or nothing of it. Once the database answers, {AFTER_A_FAILURE}."
        ) from error
    finally:
        chosen.unpersist()


def _columns(topic: Topic) -> dict[str, Held]:
    with connect(topic) as connection:
        return columns_of(connection, topic)
