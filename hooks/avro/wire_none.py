"""Bare Avro: a value is the bytes of one record of the schema in ``schemas/``, nothing else."""

from collections.abc import Callable
from typing import Literal

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from .avro import damage, verdict
from .avro_bare import make_bare_reader
from .reasons import Reason
from .settings import Topic

HEADER_BYTES = 5
_FRAMED = "Starts like a schema registry's frame: a zero byte and a schema id"


def make_reader(
    spark: SparkSession, topic: Topic, part: Literal["value", "key"], schema: str, kind: StructType
) -> Callable[[DataFrame, Column], DataFrame]:
    """What reads a column of bytes in this schema: see ``avro_bare.make_bare_reader``."""
    return make_bare_reader(spark, part, schema, kind, _explain)


def frame_fault(data: Column) -> Column:
    """STRUCT<reason, message> where *data* looks framed; null where it does not."""
    framed = (F.length(data) >= HEADER_BYTES) & (F.substring(data, 1, 1) == F.lit(b"\0"))
    return F.when(framed, verdict(Reason.FRAMED, _FRAMED))


def _explain(found: Column, data: Column) -> Column:
    return F.coalesce(frame_fault(data), damage(found, data))
