"""The Avro schema of an output topic's values: its subject's newest, with a field for each column.

BOOLEAN, INT, BIGINT, FLOAT, DOUBLE    boolean, int, long, float, double; TINYINT, SMALLINT too: int
STRING, BINARY      string, bytes
DECIMAL             bytes, as a decimal
DATE                int, as a date
TIMESTAMP           long, as timestamp-micros; TIMESTAMP_NTZ as local-timestamp-micros
ARRAY, MAP, STRUCT  array, map (by STRING alone), record

A field that is added may be null and is so by default. So a schema that has more of them reads what
was written with one that has fewer, and the reverse, and a column may go again: its field stays.
"""

import json
import re
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession
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

from .errors import RefusedError
from .output_limits import unfit_within

_SCALARS: dict[type[DataType], Any] = {
    BooleanType: "boolean",
    ByteType: "int",
    ShortType: "int",
    IntegerType: "int",
    LongType: "long",
    FloatType: "float",
    DoubleType: "double",
    StringType: "string",
    BinaryType: "bytes",
    DateType: {"type": "int", "logicalType": "date"},
    TimestampType: {"type": "long", "logicalType": "timestamp-micros"},
    TimestampNTZType: {"type": "long", "logicalType": "local-timestamp-micros"},
}


def schema_of(columns: StructType, newest: str | None, name: str) -> str:
    """The schema for rows with these *columns*: *newest* itself, if it has a field for each.

    ``name`` is the record's, where there is no version yet.

    Raises:
        RefusedError: a column has no form in Avro, or another in *newest*.
    """
    record = json.loads(newest or json.dumps({"type": "record", "name": name, "fields": []}))
    if not isinstance(record, dict) or record.get("type") != "record":
        raise RefusedError(f"The schema of {name}'s subject is no record. Nothing was written.")
    _extend(record, columns)
    text = newest if newest and json.loads(newest) == record else json.dumps(record)
    _check(text, columns)
    return text


def _extend(record: dict[str, Any], columns: StructType) -> None:
    """Adds a field for each column that has none, in the records within *record* too."""
    held = {field["name"].lower(): field["type"] for field in record["fields"]}
    for column in columns:
        if column.name.lower() in held:
            _extend_within(held[column.name.lower()], column.dataType)
            continue
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", column.name):
            raise RefusedError(
                f"The column {column.name!r} cannot be a field in Avro, whose names are letters, "
                "digits and _, no digit first. Nothing was written. Rename it in transform.py"
            )
        kind = _avro_type(column.dataType, f"{record['name']}_{column.name}")
        field = {"name": column.name, "type": ["null", kind], "default": None}
        record["fields"].append(field)


def _extend_within(kind: Any, column: DataType) -> None:
    for each in kind if isinstance(kind, list) else [kind]:
        if not isinstance(each, dict):
            continue
        if isinstance(column, StructType) and each["type"] == "record":
            _extend(each, column)
        elif isinstance(column, ArrayType) and each["type"] == "array":
            _extend_within(each["items"], column.elementType)
        elif isinstance(column, MapType) and each["type"] == "map":
            _extend_within(each["values"], column.valueType)


def _avro_type(column: DataType, name: str) -> Any:
    if isinstance(column, DecimalType):
        digits = {"precision": column.precision, "scale": column.scale}
        return {"type": "bytes", "logicalType": "decimal", **digits}
    if isinstance(column, ArrayType):
        return {"type": "array", "items": ["null", _avro_type(column.elementType, name)]}
    if isinstance(column, MapType) and isinstance(column.keyType, StringType):
        return {"type": "map", "values": ["null", _avro_type(column.valueType, name)]}
    if isinstance(column, StructType):
        record: dict[str, Any] = {"type": "record", "name": name, "fields": []}
        _extend(record, column)
        return record
    if type(column) not in _SCALARS:
        raise RefusedError(
            f"{name} is {column.simpleString()}, which has no form in Avro. Nothing was written. "
            "Make another type of it in transform.py"
        )
    return _SCALARS[type(column)]


def _check(schema: str, columns: StructType) -> None:
    """Spark is to write the columns with the schema: by its own rules, and with every null."""
    spark = SparkSession.active()
    jvm: Any = spark._jvm
    try:
        parsed = getattr(jvm.org.apache.avro, "Schema$Parser")().parse(schema)
        kind = spark._jsparkSession.parseDataType(columns.json())
        jvm.org.apache.spark.sql.avro.AvroSerializer(kind, parsed, False)
    except Py4JJavaError as error:
        said = str(error.java_exception.getMessage()).splitlines()[0]
        raise RefusedError(
            f"The rows cannot be written with the schema of the output topic: {said}. Nothing was "
            "written. Change transform.py, or register a version that fits"
        ) from None
    for field in json.loads(schema)["fields"]:
        for place, lack in unfit_within(field["type"], field["name"]):
            raise RefusedError(
                f"The schema of the output topic has {lack} for {place}, and a row may hold one "
                "there. Nothing was written. Register a version that takes it"
            )
