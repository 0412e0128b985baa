"""Bare Avro: a value is the bytes of one record of the schema in ``schemas/``, nothing else."""

from collections.abc import Callable
from typing import Literal

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from .avro import damage, ended, is_whole, read, reader_with_end, unfit, verdict, with_end
from .reasons import Reason
from .settings import Topic

HEADER_BYTES = 5
_FRAMED = "Starts like a schema registry's frame: a zero byte and a schema id, not bare Avro"


def make_reader(
    spark: SparkSession, topic: Topic, part: Literal["value", "key"], schema: str, kind: StructType
) -> Callable[[DataFrame, Column], DataFrame]:
    """What reads a column of bytes in this schema, as records with the names and types of ``kind``.

    It adds to a DataFrame the columns ``<part>_read``, for ``avro.record_of``, and ``<part>_fault``
    STRUCT<reason, message>; where that is null, all of the bytes were the record. Both are null
    where the bytes are.
    """
    writer, reader = with_end(spark, schema), reader_with_end(spark, schema, kind)

    def add_read(records: DataFrame, data: Column) -> DataFrame:
        found = F.col(f"{part}_read")
        framed = (F.length(data) >= HEADER_BYTES) & (F.substring(data, 1, 1) == F.lit(b"\0"))
        fault = (
            F.when(is_whole(found), unfit(found, kind))
            .when(framed, verdict(Reason.FRAMED, _FRAMED))
            .when(data.isNotNull(), damage(found, data))
        )
        with_read = records.withColumn(f"{part}_read", read(ended(data), writer, reader))
        return with_read.withColumn(f"{part}_fault", fault)

    return add_read
