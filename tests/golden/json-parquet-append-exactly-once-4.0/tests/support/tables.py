"""What tests do with the topics' tables beside the pipeline."""

import shutil
from collections.abc import Callable

from pyspark.sql import Row, SparkSession

from orders_pipeline import table
from orders_pipeline.settings import Topic


def read_table(spark: SparkSession, topic: Topic) -> list[Row]:
    """The rows of a table, in the order of their coordinates."""
    return table.read(spark, topic).orderBy("_partition", "_offset").collect()


def drop_table(spark: SparkSession, topic: Topic) -> None:
    """Removes a table."""
    shutil.rmtree(topic.location)


def back_up_table(topic: Topic) -> Callable[[], None]:
    """Keeps a table as it is now; called, puts it back."""
    kept = shutil.copytree(topic.location, f"{topic.location}.kept")

    def restore() -> None:
        shutil.rmtree(topic.location)
        shutil.copytree(kept, topic.location)

    return restore
