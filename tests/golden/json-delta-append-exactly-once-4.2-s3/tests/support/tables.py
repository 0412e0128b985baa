"""What tests do with the topics' tables beside the pipeline."""

from pyspark.sql import Row, SparkSession

from orders_pipeline import table
from orders_pipeline.settings import Topic

from .objects import remove


def read_table(spark: SparkSession, topic: Topic) -> list[Row]:
    """The rows of a table, in the order of their coordinates."""
    return table.read(spark, topic).orderBy("_partition", "_offset").collect()


def drop_table(spark: SparkSession, topic: Topic) -> None:
    """Removes a table."""
    remove(topic.location)
