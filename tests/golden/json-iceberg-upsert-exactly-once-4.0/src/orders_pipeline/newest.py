"""Which of the records with one key is the newest.

The one with the later ``newest_by``, where the settings name such a column (a delete has none, so
Kafka's timestamp stands for it); else, in one partition, the one with the higher offset; across
partitions, where a key moved because the topic grew, the one with the later Kafka timestamp.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from .settings import Topic


def newest(rows: DataFrame, topic: Topic) -> DataFrame:
    """The newest of *rows* for each key: same columns, each key once.

    First within each partition, by offset, then among partitions, by Kafka's timestamp: one order
    for both would not be one (a timestamp may run backwards within a partition).
    """
    keys = [_quoted(name) for name in topic.table.key_columns]
    moments = [moment("", topic)] if topic.table.newest_by else []
    row = F.struct("*").alias("row")
    in_partition = F.struct(*moments, "_offset")
    among_partitions = F.struct(*moments, "_timestamp", "_partition")
    return (
        rows.groupBy(*keys, "_partition")
        .agg(F.max_by(row, in_partition).alias("row"))
        .select("row.*")
        .groupBy(*keys)
        .agg(F.max_by(row, among_partitions).alias("row"))
        .select("row.*")
    )


def moment(side: str, topic: Topic) -> Column:
    """When a row became true: its ``newest_by``, which a delete has not, else Kafka's timestamp."""
    own = F.col(f"{side}{_quoted(str(topic.table.newest_by))}")
    return F.coalesce(own, F.col(f"{side}_timestamp"))


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
