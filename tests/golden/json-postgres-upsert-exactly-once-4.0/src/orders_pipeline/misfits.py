"""The rows of a batch that are left out: what no column can hold, and what the table refused."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from .batch import Refused
from .delivery import AFTER_A_FAILURE
from .errors import BatchError
from .settings import Topic

MAX_UNFIT = 100_000
"""As many rows of a batch as no column can hold are looked up, which this process has room for;
whether they are too many, the breaker judges."""


def unfit_rows(rows: DataFrame, why: Column, found: int, topic: Topic) -> list[Refused]:
    """Those rows for which ``why`` is not null: it is their reason. ``found`` of them were counted.

    Raises:
        BatchError: there are too many, or not as many as were counted.
    """
    limit = min(found, MAX_UNFIT) + 1
    unfit = rows.where(why.isNotNull()).select("_partition", "_offset", why).limit(limit)
    misfits = [Refused(*row) for row in unfit.collect()]
    if len(misfits) > MAX_UNFIT:
        raise BatchError(
            f"More than {MAX_UNFIT:,} rows of a batch of {topic.name} hold what the columns of "
            f"{topic.location} cannot; the first: {misfits[0].message}. Nothing of the batch was "
            f"written. Make them fit in transform.py, then {AFTER_A_FAILURE}."
        )
    if len(misfits) != found:
        raise BatchError(
            f"transform.py gives other rows of {topic.name} when the same batch is read again. "
            f"Nothing of it was written. Make it give the same, then {AFTER_A_FAILURE}."
        )
    return misfits


def without(rows: DataFrame, refused: list[Refused]) -> DataFrame:
    """The rows but for those that were refused."""
    if not refused:
        return rows
    kept: Column = F.lit(True)
    for partition in {each.partition for each in refused}:
        offsets = [each.offset for each in refused if each.partition == partition]
        kept &= ~((F.col("_partition") == partition) & F.col("_offset").isin(offsets))
    return rows.where(kept)
