"""What staging tables are called, and the removal of those that a dead process left."""

import logging
import uuid
from datetime import UTC, datetime, timedelta

from .catalog import tables_of
from .database import Connection, quoted
from .database_errors import DatabaseError
from .settings import Topic

log = logging.getLogger(__name__)


def staging_name(number: int | None, of_stream: bool) -> str:
    """A new name: of a batch of the stream, or of what is brought in beside it."""
    kind = "batch" if of_stream else "fill"
    return f"_ingest_{number}_{kind}_{datetime.now(UTC):%Y%m%d}_{uuid.uuid4().hex}"


def remove_left(connection: Connection, topic: Topic, number: int | None) -> None:
    """Removes what was staged for a table whose stream is about to start.

    Whoever staged a batch has ended or is fenced off by now; a backfill may be under way, so what
    it stages goes after a day.
    """
    yesterday = f"{datetime.now(UTC) - timedelta(days=1):%Y%m%d}"
    for name in tables_of(connection, topic.table.schema_name):
        if not name.startswith(f"_ingest_{number}_"):
            continue
        kind, day = name.removeprefix(f"_ingest_{number}_").split("_")[:2]
        if kind == "batch" or day < yesterday:
            log.info("removing %s, which a process left that has ended", name)
            try:
                connection.execute(f"DROP TABLE {quoted(topic.table.schema_name)}.{quoted(name)}")
            except DatabaseError as error:  # a process that has been replaced may still hold it
                log.warning("%s stays: %s", name, error.reason)
