"""An output record's value: the row's columns as a JSON object."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from .settings import Topic
from .shapes import AS_JSON


def encode(rows: DataFrame, topic: Topic) -> DataFrame:
    """The column ``row`` STRUCT becomes ``value`` BINARY, and ``refused`` STRING: always null."""
    value = F.to_json("row", AS_JSON).cast("binary")
    return rows.withColumns({"value": value, "refused": F.lit(None).cast("string")}).drop("row")
