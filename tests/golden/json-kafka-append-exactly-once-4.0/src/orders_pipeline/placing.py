"""Brings the rows of each source partition together, in their order, in a task of their own."""

from functools import cache

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

CANDIDATES = 20
"""Numbers tried for each task: one in 500 million times none of them leads to one of the tasks."""


def placed(records: DataFrame, partitions: list[int]) -> DataFrame:
    """The *output records* of these source partitions, nth partition in the nth task, by offset.

    Every task runs, whether it has records or not: as long as Spark's adaptive execution, which
    leaves out what it finds empty, is off.
    """
    numbers = dict(zip(partitions, _numbers(len(partitions)), strict=True))
    pairs = [F.lit(each) for pair in numbers.items() for each in pair]
    task = F.element_at(F.create_map(*pairs), F.col("_partition"))
    chosen = records.where(F.col("_partition").isin(partitions))
    return chosen.repartition(len(partitions), task).sortWithinPartitions("_offset")


@cache
def _numbers(tasks: int) -> list[int]:
    """For each task a number that Spark sends there: it goes by a number's hash."""
    tried = range(CANDIDATES * tasks)
    places = ", ".join(f"pmod(hash({number}), {tasks})" for number in tried)
    query = f"SELECT array({places})"
    [found] = SparkSession.active().sql(query).first()  # type: ignore[misc]
    return [found.index(task) for task in range(tasks)]
