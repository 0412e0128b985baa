"""Which records become rows: every accepted one, and a delete for each null value."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from .shapes import COORDINATES, is_accepted


def accepted_rows(decoded: DataFrame) -> DataFrame:
    """The *rows* of the accepted records of *decoded* (``shapes.py``), deletes among them."""
    deleted = F.col("deleted").alias("_deleted")
    return decoded.where(is_accepted()).select("record.*", *COORDINATES.fieldNames(), deleted)
