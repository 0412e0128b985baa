"""What tests do with the topics' tables beside the pipeline."""

from collections.abc import Callable
from typing import Any

from py4j.java_gateway import JavaObject
from pyspark.sql import Row, SparkSession

from orders_pipeline.database import connect, quoted, table_of
from orders_pipeline.ledger import BATCHES
from orders_pipeline.settings import Topic

from .database import is_real


def read_table(spark: SparkSession, topic: Topic) -> list[Row]:
    """The rows of a table, in the order of their coordinates; dates and moments as text."""
    names = "SELECT c.name FROM sys.columns AS c JOIN sys.tables AS t ON t.object_id = c.object_id "
    names += "WHERE t.name = ? ORDER BY c.column_id"
    with connect(topic) as connection:
        columns = [name for (name,) in connection.query(names, topic.table_name)]
        listed = ", ".join(map(quoted, columns))
        every = f"SELECT {listed} FROM {table_of(topic)} ORDER BY _partition, _offset"
        found = connection.query(every)
    return [Row(**dict(zip(columns, map(_plain, row), strict=True))) for row in found]


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
    return value.toString() if isinstance(value, JavaObject) else value
