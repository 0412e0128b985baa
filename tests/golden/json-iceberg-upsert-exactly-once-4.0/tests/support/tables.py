"""What tests do with the topics' tables beside the pipeline."""

from pyspark.sql import Row, SparkSession

from orders_pipeline import catalog, table
from orders_pipeline.settings import Topic


def read_table(spark: SparkSession, topic: Topic) -> list[Row]:
    """The rows of a table, in the order of their coordinates."""
    return table.read(spark, topic).orderBy("_partition", "_offset").collect()


def drop_table(spark: SparkSession, topic: Topic) -> None:
    """Removes a table."""
    spark.sql(f"DROP TABLE {catalog.full_name(spark, topic)} PURGE")


def data_files(spark: SparkSession, topic: Topic) -> list[str]:
    """The paths of a table's data files."""
    found = spark.table(f"{catalog.full_name(spark, topic)}.files").where("content = 0")
    return [row.file_path for row in found.collect()]
