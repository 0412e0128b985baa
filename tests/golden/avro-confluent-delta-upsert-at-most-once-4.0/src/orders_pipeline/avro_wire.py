"""Avro in the wire format of a schema registry: a zero byte, a schema's id in four, the record.

Each record is read with the schema it was written with and returned in that of ``schemas/``, so
that all versions of a topic's schema can be mixed.

Source: Confluent's documentation of Schema Registry, "Wire format". Other registries follow it.
"""

from collections.abc import Callable, Sequence

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from .avro import damage, ended, is_whole, read, reader_with_end, unfit, verdict
from .avro_resolution import resolve
from .reasons import Reason
from .registry import Part, writer_schemas
from .settings import Topic

HEADER_BYTES = 5


def make_reader(
    spark: SparkSession, topic: Topic, part: Part, schema: str, kind: StructType
) -> Callable[[DataFrame, Column], DataFrame]:
    """What reads a column of framed bytes, as records with the names and types of ``kind``.

    It adds to a DataFrame the columns ``<part>_read``, for ``avro.record_of``, and ``<part>_fault``
    STRUCT<reason, message>; where that is null, all of the bytes were the record. Both are null
    where the bytes are.

    Raises:
        RefusedError, NoAnswerError, SettingsError: see ``registry.writer_schemas``.
    """
    reader = reader_with_end(spark, schema, kind)
    # The newest first: most records are of it.
    writers = sorted(writer_schemas(topic, "AVRO", part).items(), reverse=True)
    ids = [schema_id for schema_id, _ in writers]
    resolutions = [(schema_id, resolve(spark, schema, writer)) for schema_id, writer in writers]
    nth, found, data_ended = (F.col(f"{part}_{name}") for name in ("nth", "read", "ended"))

    def add_read(records: DataFrame, data: Column) -> DataFrame:
        reading = F.when(F.lit(False), read(data_ended, reader, reader))  # for its type
        for number, (_, resolved) in enumerate(resolutions, start=1):
            if resolved.problem is None:
                reading = reading.when(nth == number, read(data_ended, resolved.writer, reader))
        fault = F.when(is_whole(found), unfit(found, kind)).when(data.isNotNull(), _fault(data))
        return (
            # A number, since every comparison of bytes would copy them first.
            records.withColumn(f"{part}_nth", nth_schema(data, ids))
            .withColumn(f"{part}_ended", ended(payload(data)))
            .withColumn(f"{part}_read", reading)
            .withColumn(f"{part}_fault", fault)
        )

    def _fault(data: Column) -> Column:
        fault = frame_fault(data, nth)
        for number, (schema_id, resolved) in enumerate(resolutions, start=1):
            if resolved.problem is not None:
                message = f"The record's schema, id {schema_id}: {resolved.problem}"
                fault = fault.when(nth == number, verdict(Reason.INCOMPATIBLE_SCHEMA, message))
        return fault.otherwise(damage(found, payload(data)))

    return add_read


def nth_schema(data: Column, ids: Sequence[int]) -> Column:
    """Which of ``ids``, from 1 on, *data* has in its header; 0 for none of them."""
    frames = F.array(*(F.lit(b"\0" + schema_id.to_bytes(4, "big")) for schema_id in ids))
    return F.array_position(frames, F.substring(data, 1, HEADER_BYTES))


def frame_fault(data: Column, nth: Column) -> Column:
    """STRUCT<reason, message>: why *data* has no header of ours; null, as yet, where it has one."""
    is_framed = (F.length(data) >= HEADER_BYTES) & (F.substring(data, 1, 1) == F.lit(b"\0"))
    not_framed = "No zero byte and schema id at its start"
    found_id = F.conv(F.hex(F.substring(data, 2, HEADER_BYTES - 1)), 16, 10)
    unknown = F.concat(F.lit("Schema id "), found_id, F.lit(" is not one of this topic's"))
    fault = F.when(~is_framed, verdict(Reason.NOT_FRAMED, not_framed))
    return fault.when(nth == 0, verdict(Reason.UNKNOWN_SCHEMA, unknown))


def payload(data: Column) -> Column:
    """What comes after the header."""
    return F.substring(data, HEADER_BYTES + 1, 2**31 - 1)
