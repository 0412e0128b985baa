"""Which records become rows: every accepted one. A null value is nothing to this pipeline."""

from pyspark.sql import DataFrame

from .shapes import COORDINATES, is_accepted


def accepted_rows(decoded: DataFrame) -> DataFrame:
    """The *rows* of the accepted records of *decoded* (``shapes.py``)."""
    return decoded.where(is_accepted()).select("record.*", *COORDINATES.fieldNames())
