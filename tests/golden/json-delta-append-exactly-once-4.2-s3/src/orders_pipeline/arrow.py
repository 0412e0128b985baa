"""Spark's types as Arrow's, for the functions that work on Arrow arrays.

PySpark's own conversion is not public, and its signature differs between Spark's versions.
"""

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from .errors import SettingsError

PLAIN: dict[type[DataType], pa.DataType] = {
    ByteType: pa.int8(),
    ShortType: pa.int16(),
    IntegerType: pa.int32(),
    LongType: pa.int64(),
    FloatType: pa.float32(),
    DoubleType: pa.float64(),
    BooleanType: pa.bool_(),
    StringType: pa.string(),
    BinaryType: pa.binary(),
    DateType: pa.date32(),
    TimestampType: pa.timestamp("us", tz="UTC"),
    TimestampNTZType: pa.timestamp("us"),
}


def arrow_schema(fields: StructType) -> pa.Schema:
    """The same fields in Arrow, nullable where they are.

    Raises:
        SettingsError: a type that no record can hold (an interval, a variant).
    """
    return pa.schema([pa.field(f.name, _arrow_type(f.dataType), f.nullable) for f in fields])


def _arrow_type(kind: DataType) -> pa.DataType:
    if isinstance(kind, DecimalType):
        return pa.decimal128(kind.precision, kind.scale)
    if isinstance(kind, StructType):
        return pa.struct(list(arrow_schema(kind)))
    if isinstance(kind, ArrayType):
        element = pa.field("element", _arrow_type(kind.elementType), kind.containsNull)
        return pa.list_(element)
    if isinstance(kind, MapType):
        value = pa.field("value", _arrow_type(kind.valueType), kind.valueContainsNull)
        return pa.map_(_arrow_type(kind.keyType), value)
    if type(kind) in PLAIN:
        return PLAIN[type(kind)]
    raise SettingsError(
        f"The type {kind.simpleString()} has no counterpart in a record. Use STRING for the field, "
        "and change it in transform.py."
    )
