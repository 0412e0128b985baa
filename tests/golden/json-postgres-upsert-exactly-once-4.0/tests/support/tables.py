"""What tests do with the topics' tables beside the pipeline."""

from collections.abc import Callable

from psycopg import sql
from psycopg.rows import dict_row
from pyspark.sql import Row, SparkSession

from orders_pipeline.database import connect, table_of
from orders_pipeline.ledger import BATCHES
from orders_pipeline.settings import Topic


def read_table(spark: SparkSession, topic: Topic) -> list[Row]:
    """The rows of a table, in the order of their coordinates."""
    with connect(topic) as connection, connection.cursor(row_factory=dict_row) as cursor:
        every = sql.SQL("SELECT * FROM {} ORDER BY _partition, _offset")
        cursor.execute(every.format(table_of(topic)))
        return [Row(**row) for row in cursor]


def drop_table(spark: SparkSession, topic: Topic) -> None:
    """Removes a table."""
    with connect(topic) as connection:
        connection.execute(sql.SQL("DROP TABLE {}").format(table_of(topic)))


def back_up_table(topic: Topic) -> Callable[[], None]:
    """Keeps a table as it is now, with the notes of its batches; called, puts it back."""
    schema, table_name = topic.table.schema_name, topic.table_name
    ours = [
        (table_of(topic), sql.Identifier(schema, f"{table_name}_kept")),
        (sql.Identifier(schema, BATCHES), sql.Identifier(schema, f"{table_name}_kept_batches")),
    ]
    with connect(topic) as connection:
        for source, kept in ours:
            keep = sql.SQL("CREATE TABLE {} AS SELECT * FROM {}")
            connection.execute(keep.format(kept, source))

    def restore() -> None:
        with connect(topic) as connection:
            for source, kept in ours:
                connection.execute(sql.SQL("DELETE FROM {}").format(source))
                again = sql.SQL("INSERT INTO {} SELECT * FROM {}")
                connection.execute(again.format(source, kept))

    return restore
