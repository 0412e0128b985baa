"""What tests do with the topics' tables beside the pipeline."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

from py4j.java_gateway import JavaObject
from pyspark.sql import Row, SparkSession

from orders_pipeline.catalog import number_of
from orders_pipeline.database import connect, quoted, table_of
from orders_pipeline.ledger import BATCHES
from orders_pipeline.settings import Topic

from .database import is_real


def read_table(spark: SparkSession, topic: Topic) -> list[Row]:
    """The rows of a table, in the order of their coordinates; a date as text."""
    with connect(topic) as connection:
        number = number_of(connection, topic.table.schema_name, topic.table_name)
        columns = connection.query(
            "SELECT c.name, y.name FROM sys.columns AS c JOIN sys.types AS y "
            "ON y.user_type_id = c.user_type_id WHERE c.object_id = ? ORDER BY c.column_id",
            number,
        )
        # java.sql.Date would count the days of early years by another calendar.
        listed = ", ".join(
            f"CAST({quoted(name)} AS nvarchar(10))" if kind == "date" else quoted(name)
            for name, kind in columns
        )
        every = f"SELECT {listed} FROM {table_of(topic)} ORDER BY _partition, _offset"
        found = connection.query(every)
    names = [name for name, _ in columns]
    return [Row(**dict(zip(names, map(_plain, row), strict=True))) for row in found]


def drop_table(spark: SparkSession, topic: Topic) -> None:
    """Removes a table."""
    with connect(topic) as connection:
        connection.execute(f"DROP TABLE {table_of(topic)}")
        if not is_real():  # see _as_sql_server in database.py
            change = "UPDATE sys.dropped SET times = times + 1 WHERE name = ?"
            if not connection.execute(change, topic.location):
                add = "INSERT INTO sys.dropped (name, times) VALUES (?, 1)"
                connection.execute(add, topic.location)


def back_up_table(topic: Topic) -> Callable[[], None]:
    """Keeps a table as it is now, with the notes of its batches; called, puts it back."""
    schema = quoted(topic.table.schema_name)
    ours = [table_of(topic), f"{schema}.{quoted(BATCHES)}"]
    with connect(topic) as connection:
        kept = {source: connection.query(f"SELECT * FROM {source}") for source in ours}

    def restore() -> None:
        with connect(topic) as connection:
            for source, rows in kept.items():
                connection.execute(f"DELETE FROM {source}")
                for row in rows:
                    places = ", ".join("?" * len(row))
                    connection.execute(f"INSERT INTO {source} VALUES ({places})", *row)

    return restore


def _plain(value: Any) -> Any:
    """A value as Python has it; of Java's objects only moments are left."""
    if not isinstance(value, JavaObject):
        return value
    return datetime.fromisoformat(value.toString().replace(" +", "+"))
