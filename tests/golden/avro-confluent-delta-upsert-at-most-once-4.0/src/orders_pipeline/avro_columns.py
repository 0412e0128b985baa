"""Avro schemas and Spark columns, where ``from_avro`` does not bring them together by itself."""

import json
from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import reduce
from operator import or_
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DateType,
    DecimalType,
    MapType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

_FIRST, _LAST = "0001-01-01 00:00:00", "9999-12-31 23:59:59.999999"
_CALENDAR: dict[type[DataType], tuple[str, str]] = {
    DateType: ("DATE'0001-01-01'", "DATE'9999-12-31'"),
    TimestampType: (f"TIMESTAMP'{_FIRST}Z'", f"TIMESTAMP'{_LAST}Z'"),
    TimestampNTZType: (f"TIMESTAMP_NTZ'{_FIRST}'", f"TIMESTAMP_NTZ'{_LAST}'"),
}


def reader_schema(text: str, kind: DataType) -> Any:
    """The Avro schema in *text*, as JSON, with the fields' names in ``kind`` and theirs as aliases.

    ``from_avro`` finds fields by name and does not tell ``id`` from ``ID``: it makes nulls of both.
    And of a number for a DECIMAL of up to 18 digits it takes the last 64 bits, however many there
    are: so decimals have all the digits here that their bytes can hold, whatever their column has.
    """
    return _named(json.loads(json.dumps(plain_schema(text)), object_hook=_widest), kind)


def plain_schema(text: str) -> Any:
    """The Avro schema in *text*, as JSON, with numbers for times in microseconds.

    Spark 4.2 would make TIME of them, which 4.0 does not know and many tables cannot hold.
    """
    return json.loads(text, object_hook=_without_time)


def _without_time(schema: dict[str, Any]) -> dict[str, Any]:
    if schema.get("logicalType") == "time-micros":
        return {key: value for key, value in schema.items() if key != "logicalType"}
    return schema


def _widest(schema: dict[str, Any]) -> dict[str, Any]:
    if schema.get("logicalType") == "decimal":
        return {**schema, "precision": most_digits(schema)}
    return schema


def most_digits(decimal: dict[str, Any]) -> int:
    """How many digits a decimal of this Avro type can have: 38, as in 16 bytes, unless it is less.

    Any number of as many digits has to fit: a fixed of 8 bytes, one signed number, has room for 18.
    """
    size = min(decimal["size"], 16) if decimal["type"] == "fixed" else 16
    return len(str(256**size // 2)) - 1


def _named(schema: Any, kind: DataType) -> Any:
    if isinstance(schema, list):
        return _named_branches(schema, kind)
    if not isinstance(schema, dict):
        return schema  # a primitive, or the name of a type that was defined before
    if isinstance(schema["type"], dict | list):
        return {**schema, "type": _named(schema["type"], kind)}
    if schema["type"] == "array" and isinstance(kind, ArrayType):
        return {**schema, "items": _named(schema["items"], kind.elementType)}
    if schema["type"] == "map" and isinstance(kind, MapType):
        return {**schema, "values": _named(schema["values"], kind.valueType)}
    if schema["type"] == "record" and isinstance(kind, StructType):
        fields = [
            {**field, "type": _named(field["type"], column.dataType)}
            | _new_name(field, column.name)
            for field, column in zip(schema["fields"], kind, strict=True)
        ]
        return {**schema, "fields": fields}
    return schema


def _named_branches(union: list[Any], kind: DataType) -> list[Any]:
    is_null = [branch in ("null", {"type": "null"}) for branch in union]
    if is_null.count(False) == 1 or not isinstance(kind, StructType):
        return [_named(branch, kind) for branch in union]
    members = iter(kind)
    return [
        branch if null else _named(branch, next(members).dataType)
        for branch, null in zip(union, is_null, strict=True)
    ]


def _new_name(field: dict[str, Any], name: str) -> dict[str, Any]:
    if field["name"] == name:
        return {}
    return {"name": name, "aliases": [*field.get("aliases", []), field["name"]]}


def not_utf8(record: Column, kind: DataType) -> Column:
    """True where a string in *record* is not UTF-8, as text has to be for whoever reads it."""
    return _any(
        ~F.is_valid_utf8(F.array_join(text, ",") if many else text)  # no comma is part of another
        for text, _, many in _leaves(record, kind, lambda leaf: isinstance(leaf, StringType))
    )


def outside_calendar(record: Column, kind: DataType) -> Column:
    """True where a date or timestamp in *record* is outside the years that others can show."""
    return _any(
        _is_outside(moment, many, *(F.expr(bound) for bound in _CALENDAR[type(leaf)]))
        for moment, leaf, many in _leaves(record, kind, lambda leaf: type(leaf) in _CALENDAR)
    )


def too_many_digits(record: Column, kind: DataType) -> Column:
    """True where a decimal in *record* has more digits than ``kind`` gives it."""
    return _any(
        _is_outside(number, many, *(F.lit(bound) for bound in _bounds(leaf)))
        for number, leaf, many in _leaves(record, kind, lambda leaf: isinstance(leaf, DecimalType))
    )


def _bounds(kind: Any) -> tuple[Decimal, Decimal]:
    largest = Decimal((0, (9,) * kind.precision, -kind.scale))
    return largest.copy_negate(), largest


def _is_outside(value: Column, many: bool, first: Column, last: Column) -> Column:
    least, greatest = (F.array_min(value), F.array_max(value)) if many else (value, value)
    return (least < first) | (greatest > last)


def _any(conditions: Iterator[Column] | list[Column]) -> Column:
    return reduce(or_, conditions, F.lit(False))


def _leaves(
    column: Column, kind: DataType, wanted: Callable[[DataType], bool], many: bool = False
) -> Iterator[tuple[Column, DataType, bool]]:
    """The parts of *column* whose type is ``wanted``, with it; as one array where there are many.

    Without a function for each element, which Spark would not compile.
    """
    if isinstance(kind, StructType):
        for field in kind:
            yield from _leaves(column[field.name], field.dataType, wanted, many)
    elif isinstance(kind, ArrayType):
        elements = F.flatten(F.array_compact(column)) if many else column
        yield from _leaves(elements, kind.elementType, wanted, many=True)
    elif isinstance(kind, MapType):
        for part, inner in ((F.map_keys, kind.keyType), (F.map_values, kind.valueType)):
            parts = F.flatten(F.transform(F.array_compact(column), part)) if many else part(column)
            yield from _leaves(parts, inner, wanted, many=True)
    elif wanted(kind):
        yield column, kind, many
