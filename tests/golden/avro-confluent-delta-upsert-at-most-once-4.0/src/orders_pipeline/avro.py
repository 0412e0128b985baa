"""Avro by Spark's own ``from_avro``, made strict: bytes are one whole record, or a reason.

``from_avro`` alone takes bytes that go on after the record, text that is not UTF-8 and moments that
no calendar shows; and of bytes that it cannot read it makes a record of nulls, like one whose
fields are all null. So every value is read with a number behind it, as a record with one more field
at its end: only where that is found was the value the other fields and nothing else.
"""

import json
from functools import lru_cache
from typing import Any

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro
from pyspark.sql.types import DataType, StructType

from .avro_columns import not_utf8, outside_calendar, reader_schema, too_many_digits
from .reasons import Reason

# Avro writes it in ten bytes and no shorter, so neither the end of these alone nor others before
# them are read as the same number. A field of one number costs less than a `fixed` or a record.
_END = -0x7D3C5A19E4B28F61
_END_BYTES = b"\xc1\xbd\x94\xcb\xbc\x86\xad\xbc\xfa\x01"
_END_FIELD = "_end_of_the_record"


def ended(data: Column) -> Column:
    """BINARY: *data* with the end behind it, for :func:`read`; null where that is null."""
    return F.concat(data, F.lit(_END_BYTES))


def read(data: Column, writer: str, reader: str) -> Column:
    """STRUCT<the reader's fields, and the end> of *data* (:func:`ended`); null where that is null.

    ``writer`` and ``reader`` come from :func:`with_end` and :func:`reader_with_end`: the schema it
    was written with and the one to return it in, by Avro's schema resolution. Of bytes that cannot
    be read all fields are null.
    """
    options = {
        "mode": "PERMISSIVE",
        "avroSchema": reader,
        "datetimeRebaseMode": "CORRECTED",  # days as written, not as Julian ones before 1582
    }
    return from_avro(data, writer, options)


def is_whole(found: Column) -> Column:
    """True where *found* (:func:`read`) is all that its data was; else false or null."""
    return found[_END_FIELD] == F.lit(_END)


def record_of(found: Column, kind: StructType) -> Column:
    """STRUCT<the reader's fields> of *found* (:func:`read`), if it is fit (:func:`unfit`)."""
    return F.struct(*(field_of(found, field.name, field.dataType) for field in kind))


def field_of(found: Column, name: str, kind: DataType) -> Column:
    """The field ``name`` of *found*, of its column's type: decimals were read as wider ones."""
    return found[name].try_cast(kind).alias(name)


def damage(found: Column, data: Column) -> Column:
    """STRUCT<reason, message>: why *data* is not the one record of its schema."""
    no_end = found[_END_FIELD].isNull()
    return (
        F.when(F.length(data) == 0, verdict(Reason.UNDECODABLE, "Empty: zero bytes"))
        .when(no_end, verdict(Reason.UNDECODABLE, "Cut off, or not of this schema"))
        .otherwise(verdict(Reason.UNDECODABLE, "More bytes follow the record"))
    )


def unfit(found: Column, kind: StructType) -> Column:
    """STRUCT<reason, message>: what a table could not show of a whole record; null if it can."""
    calendar = "A date or timestamp is outside the years 1 to 9999"
    digits = "A decimal has more digits than its column"
    return (
        F.when(not_utf8(found, kind), verdict(Reason.UNDECODABLE, "A string is not UTF-8"))
        .when(outside_calendar(found, kind), verdict(Reason.OUT_OF_RANGE, calendar))
        .when(too_many_digits(found, kind), verdict(Reason.OUT_OF_RANGE, digits))
    )


def verdict(reason: Reason, message: Column | str) -> Column:
    """STRUCT<reason, message>: why a record is rejected."""
    text = F.lit(message) if isinstance(message, str) else message
    return F.struct(F.lit(str(reason)).alias("reason"), text.alias("message"))


def reader_with_end(spark: SparkSession, schema: str, kind: DataType) -> str:
    """The schema to return records of ``schema`` in, with the names that ``kind`` has."""
    return with_end(spark, json.dumps(reader_schema(schema, kind)))


@lru_cache(maxsize=1024)
def with_end(spark: SparkSession, schema: str) -> str:
    """The record ``schema`` with the end as its last field; any other type as a field before it.

    Under another name, so that a record that holds itself still holds what it did.
    """
    avro: Any = spark._jvm.org.apache.avro  # type: ignore[union-attr]
    schema_class, field = avro.Schema, getattr(avro, "Schema$Field")
    parsed = getattr(avro, "Schema$Parser")().setValidateDefaults(False).parse(schema)
    if parsed.getType().toString() == "RECORD":
        fields = [field(each, each.schema()) for each in parsed.getFields()]
    else:
        fields = [field(NO_RECORD, parsed)]
    end = field(_END_FIELD, schema_class.create(getattr(avro, "Schema$Type").LONG))
    record = schema_class.createRecord("WithEnd", None, "with.end", False)
    record.setFields([*fields, end])
    return str(record.toString())


NO_RECORD = "value"
"""The name of the one field of what is read, where the schema is of no record."""
