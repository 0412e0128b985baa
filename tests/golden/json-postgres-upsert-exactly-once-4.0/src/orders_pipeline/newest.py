"""Which of the records with one key is the newest.

The one with the later ``newest_by``, where the settings name such a column (a delete has none, so
Kafka's timestamp stands for it); else, in one partition, the one with the higher offset; across
partitions, where a key moved because the topic grew, the one with the later Kafka timestamp.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from .settings import Topic


def newest(rows: DataFrame, topic: Topic) -> DataFrame:
    """The newest of *rows* for each key: same columns, each key once.

    First within each partition, by offset, then among partitions, by Kafka's timestamp: one order
    for both would not be one (a timestamp may run backwards within a partition). One shuffle, by
    the key, does for both.

    The query that reads them fails where a key column is null: rows without a key would be taken
    for one another's. The decoders let none by, so it is ``transform.py`` that gives it.
    """
    rows = rows.withColumns({name: _given(name) for name in topic.table.key_columns})
    keys = [_quoted(name) for name in topic.table.key_columns]
    moments = [moment("", topic)] if topic.table.newest_by else []
    rows = _first(rows.repartition(*keys), [*keys, "_partition"], *moments, F.col("_offset"))
    return _first(rows, keys, *moments, F.col("_timestamp"), F.col("_partition"))


def _given(name: str) -> Column:
    said = f"transform.py gives a row with null in the key column {name}"
    return F.coalesce(F.col(_quoted(name)), F.raise_error(F.lit(said)))


def _first(rows: DataFrame, keys: list[str], *order: Column) -> DataFrame:
    """Of each of the *keys* the row that is highest in that order."""
    by_key = Window.partitionBy(*keys).orderBy(*(column.desc() for column in order))
    nth = max(rows.columns, key=len) + "_"  # longer than the name of any column, so none of them
    numbered = rows.select("*", F.row_number().over(by_key).alias(nth))
    return numbered.where(F.col(_quoted(nth)) == 1).select(*map(_quoted, rows.columns))


def moment(side: str, topic: Topic) -> Column:
    """When a row became true: its ``newest_by``, which a delete has not, else Kafka's timestamp."""
    own = F.col(f"{side}{_quoted(str(topic.table.newest_by))}")
    return F.coalesce(own, F.col(f"{side}_timestamp"))


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
