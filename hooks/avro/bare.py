"""Avro that nothing comes before: bytes are one record of one schema, known beforehand."""

from collections.abc import Callable
from typing import Literal

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from .avro import damage, ended, is_whole, read, reader_with_end, unfit, verdict, with_end
from .reasons import Reason

HEADER_BYTES = 5
_FRAMED = "Starts like a schema registry's frame: a zero byte and a schema id"


def make_bare_reader(
    spark: SparkSession, part: Literal["value", "key"], schema: str, kind: StructType
) -> Callable[[DataFrame, Column], DataFrame]:
    """What reads a column of bytes in this schema, as records with the names and types of ``kind``.

    It adds to a DataFrame the columns ``<part>_read``, for ``avro.record_of``, and ``<part>_fault``
    STRUCT<reason, message>; where that is null, all of the bytes were the record. Both are null
    where the bytes are.
    """
    writer, reader = with_end(spark, schema), reader_with_end(spark, schema, kind)
    found = F.col(f"{part}_read")

    def add_read(records: DataFrame, data: Column) -> DataFrame:
        fault = F.when(is_whole(found), unfit(found, kind)).when(
            data.isNotNull(), F.coalesce(framed_fault(data), damage(found, data))
        )
        with_read = records.withColumn(f"{part}_read", read(ended(data), writer, reader))
        return with_read.withColumn(f"{part}_fault", fault)

    return add_read


def framed_fault(data: Column) -> Column:
    """STRUCT<reason, message> where *data* begins as a registry's frame does; else null."""
    framed = (F.length(data) >= HEADER_BYTES) & (F.substring(data, 1, 1) == F.lit(b"\0"))
    return F.when(framed, verdict(Reason.FRAMED, _FRAMED))
