"""The records of rows that the table refused, as dead letters are made of."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from .batch import Refused
from .reasons import Reason
from .shapes import COORDINATES


def refused_records(records: DataFrame, refused: list[Refused]) -> DataFrame:
    """The records at these coordinates; *records* are read once more for them.

    Columns: *records* in; the coordinates and ``rejected`` of *decoded* out (``shapes.py``).
    """
    shape = "partition INT, offset BIGINT, message STRING"
    chosen = F.broadcast(records.sparkSession.createDataFrame(refused, shape))
    rejected = F.struct(
        F.lit(Reason.REFUSED.value).alias("reason"), "message", "key", "value", "headers"
    )
    flat = records.withColumn("headers", F.to_json("headers"))
    return flat.join(chosen, ["partition", "offset"]).select(
        *(F.col(name[1:]).alias(name) for name in COORDINATES.fieldNames()),
        rejected.alias("rejected"),
    )
