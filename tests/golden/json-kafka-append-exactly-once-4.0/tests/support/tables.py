"""What tests do with the topics' tables beside the pipeline."""

from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F

from orders_pipeline import table
from orders_pipeline.columns import row_columns
from orders_pipeline.schema import read_schema
from orders_pipeline.settings import Topic
from orders_pipeline.shapes import RESERVED

from .topics import delete_topic


def read_table(spark: SparkSession, topic: Topic) -> list[Row]:
    """The rows of an output topic, in the order of their coordinates: what readers can see."""
    if not table.exists(spark, topic):
        return []
    columns = row_columns(spark, topic, read_schema(topic))
    coordinates = ["_topic", "_partition", "_offset", "_timestamp"]
    own = [column for column in columns if column.name not in RESERVED]
    shape = ", ".join(f"{table.quoted(c.name)} {c.dataType.simpleString()}" for c in own)
    held = table.read(spark, topic).where(F.col("_topic") == topic.name)
    rows = held.select(F.from_json("value", shape).alias("row"), *coordinates)
    return rows.select("row.*", *coordinates).orderBy("_partition", "_offset").collect()


def drop_table(spark: SparkSession, topic: Topic) -> None:
    """Removes an output topic."""
    delete_topic(topic.settings.kafka.bootstrap_servers, topic.location)
