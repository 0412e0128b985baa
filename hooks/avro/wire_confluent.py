"""Avro in the wire format of a schema registry: a zero byte, a schema's id in four, the record.

Each record is read with the schema it was written with and returned in that of ``schemas/``, so
that all versions of a topic's schema can be mixed.

Source: Confluent's documentation of Schema Registry, "Wire format". Other registries follow it.
"""

from collections.abc import Callable
from typing import Literal

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from .avro import damage, is_whole, read, reader_with_end, unfit, verdict
from .avro_resolution import resolve
from .reasons import Reason
from .registry import writer_schemas
from .settings import Topic

HEADER_BYTES = 5


def make_reader(
    spark: SparkSession, topic: Topic, part: Literal["value", "key"], schema: str, kind: StructType
) -> Callable[[DataFrame, Column], DataFrame]:
    """What reads a column of framed bytes, as records with the names and types of ``kind``.

    It adds to a DataFrame the columns ``<part>_read``, for ``avro.record_of``, and ``<part>_fault``
    STRUCT<reason, message>; where that is null, all of the bytes were the record. Both are null
    where the bytes are.

    Raises:
        RefusedError, NoAnswerError, SettingsError: see ``registry.writer_schemas``.
    """
    reader = reader_with_end(spark, schema, kind)
    writers: dict[bytes, str] = {}
    problems: dict[bytes, str] = {}
    # The newest first: it is the one of most records.
    for schema_id, registered in sorted(writer_schemas(topic, "AVRO", part).items(), reverse=True):
        found = resolve(spark, schema, registered)
        if found.problem is None:
            writers[_header(schema_id)] = found.writer
        else:
            problems[_header(schema_id)] = f"The record's schema, id {schema_id}: {found.problem}"

    def add_read(records: DataFrame, data: Column) -> DataFrame:
        found, header = F.col(f"{part}_read"), F.col(f"{part}_header")
        payload = F.substring(data, HEADER_BYTES + 1, 2**31 - 1)
        reading = F.when(F.lit(False), read(payload, reader, reader))  # for its type
        for frame, writer in writers.items():
            reading = reading.when(header == F.lit(frame), read(payload, writer, reader))
        return (
            records.withColumn(f"{part}_header", F.substring(data, 1, HEADER_BYTES))
            .withColumn(f"{part}_read", reading)
            .withColumn(
                f"{part}_fault",
                F.when(is_whole(found), unfit(found, kind)).when(
                    data.isNotNull(), _fault(found, header, payload)
                ),
            )
        )

    def _fault(found: Column, header: Column, payload: Column) -> Column:
        framed = (F.length(header) == HEADER_BYTES) & (F.substring(header, 1, 1) == F.lit(b"\0"))
        fault = F.when(
            ~framed, verdict(Reason.NOT_FRAMED, "No zero byte and schema id at its start")
        )
        for frame, problem in problems.items():
            fault = fault.when(header == F.lit(frame), verdict(Reason.INCOMPATIBLE_SCHEMA, problem))
        schema_id = F.conv(F.hex(F.substring(header, 2, 4)), 16, 10)
        unknown = F.concat(F.lit("Schema id "), schema_id, F.lit(" is not one of this topic's"))
        if writers:
            is_known = header.isin([F.lit(frame) for frame in writers])
            fault = fault.when(~is_known, verdict(Reason.UNKNOWN_SCHEMA, unknown))
            return fault.otherwise(damage(found, payload))
        return fault.otherwise(verdict(Reason.UNKNOWN_SCHEMA, unknown))

    return add_read


def _header(schema_id: int) -> bytes:
    return b"\0" + schema_id.to_bytes(4, "big")
