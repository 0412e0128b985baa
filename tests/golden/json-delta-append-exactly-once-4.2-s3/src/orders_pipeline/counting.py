"""Counts rows while they pass, so that counting costs no pass of its own."""

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F

from .shapes import is_accepted, is_rejected


def every() -> Column:
    """Counts every row."""
    return F.count(F.lit(1))


def observe(rows: DataFrame, **counts: Column) -> tuple[DataFrame, Observation]:
    """``rows``, and the counts that are there once something has been done with all of them.

    The counts never arrive when nothing is done: not for a write that the table skips.
    """
    observation = Observation()
    named = [count.alias(name) for name, count in counts.items()]
    return rows.observe(observation, *named), observation


def outcomes() -> dict[str, Column]:
    """What to count in *decoded* (``shapes.py``): every record is one of three.

    Beside the counts, ``reason`` is the most frequent one of the rejected, null without any.
    """
    neither = ~is_accepted() & ~is_rejected()
    return {
        "accepted": F.count_if(is_accepted()),
        "rejected": F.count_if(is_rejected()),
        "skipped": F.count_if(neither),
        "reason": F.mode(F.col("rejected.reason")),
    }
