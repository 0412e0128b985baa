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
    return pa.schema(_arrow_fields(fields, ""))


def _arrow_fields(fields: StructType, path: str) -> list[pa.Field]:
    return [
        pa.field(f.name, _arrow_type(f.dataType, f"{path}{f.name}"), f.nullable) for f in fields
    ]


def _arrow_type(kind: DataType, path: str) -> pa.DataType:
    if isinstance(kind, DecimalType):
        return pa.decimal128(kind.precision, kind.scale)
    if isinstance(kind, StructType):
        return pa.struct(_arrow_fields(kind, f"{path}."))
    if isinstance(kind, ArrayType):
        element = _arrow_type(kind.elementType, f"{path}[...]")
        return pa.list_(pa.field("element", element, kind.containsNull))
    if isinstance(kind, MapType):
        value = _arrow_type(kind.valueType, f"{path}[...]")
        key = _arrow_type(kind.keyType, f"{path}, its keys")
        return pa.map_(key, pa.field("value", value, kind.valueContainsNull))
    if type(kind) in PLAIN:
        return PLAIN[type(kind)]
    raise SettingsError(
        f"{path}: the type {kind.simpleString()} has no counterpart in a record. Give the field "
        "another, such as STRING, and change it in transform.py."
    )
