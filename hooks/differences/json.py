"""How a version of a topic's JSON Schema in the registry differs from ours, field by field.

Compared, in objects, arrays and maps at any depth: ``properties``, ``required``, ``type``,
``items`` and ``additionalProperties``. Whatever else a schema says is taken to fit: ``$ref``,
``anyOf`` and its like, ``enum``, ``format``, ``pattern``, ranges. So is an object without
``properties``, which says nothing of its fields.
"""

import json
from collections.abc import Iterator
from typing import Any

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegralType,
    MapType,
    StructType,
)

from .registry import Registered
from .settings import Topic

Pair = tuple[str, DataType, dict[str, Any]]
"""Where in a record, the column's type, and what the JSON Schema says of it."""


def unread_fields(fields: StructType, registered: Registered) -> list[str]:
    """The fields that the version has and ours has not, ``address.zip``; those within are not."""
    return [
        _dotted(path, name)
        for path, kind, schema in _pairs("", fields, _parsed(registered))
        if isinstance(kind, StructType)
        for name in _properties(schema)
        if name not in kind.fieldNames()
    ]


def cannot_read(topic: Topic, fields: StructType, registered: Registered) -> list[str]:
    """Why records that are valid under the version may be rejected here; empty if they are not."""
    found = []
    for path, kind, schema in _pairs("", fields, _parsed(registered)):
        if refused := _types(schema) - {"null"} - _taken(kind):
            found.append(_type_differs(path, kind, refused))
        if not isinstance(kind, StructType) or not _properties(schema):
            continue
        for field in kind:
            there = _properties(schema).get(field.name, {})
            is_there = field.name in schema.get("required", []) and "null" not in _types(there)
            if not field.nullable and not is_there:
                name = _dotted(path, field.name)
                found.append(f"{name} is NOT NULL here, and may be absent or null there")
    if topic.settings.decode.unknown_fields == "reject":
        unread = unread_fields(fields, registered)
        found += [f"{name} is unknown here, and rejected by unknown_fields" for name in unread]
    return found


def cannot_be_read(fields: StructType, registered: Registered) -> list[str]:
    """Why records that fit our columns may not be valid under the version; empty if they are.

    A column that may be null is one that may be absent: whether its null is written, no DDL says.
    """
    found = []
    for path, kind, schema in _pairs("", fields, _parsed(registered)):
        if (allowed := _types(schema)) and not allowed & _held(kind):
            found.append(_type_differs(path, kind, allowed))
        if not isinstance(kind, StructType):
            continue
        always = [field.name for field in kind if not field.nullable]
        for name in schema.get("required", []):
            if name not in always:
                found.append(f"{_dotted(path, name)} is required there, and not NOT NULL here")
        if schema.get("additionalProperties") is False:
            for name in kind.fieldNames():
                if name not in _properties(schema):
                    found.append(f"{_dotted(path, name)} is not allowed there")
    return found


def _pairs(path: str, kind: DataType, schema: Any) -> Iterator[Pair]:
    """Each place in a record of which both sides say something, from the outside in."""
    if not isinstance(schema, dict):
        return
    yield path, kind, schema
    if isinstance(kind, StructType):
        for field in kind:
            there = _properties(schema).get(field.name)
            yield from _pairs(_dotted(path, field.name), field.dataType, there)
    elif isinstance(kind, ArrayType):
        yield from _pairs(f"{path}[...]", kind.elementType, schema.get("items"))
    elif isinstance(kind, MapType):
        yield from _pairs(f"{path}[...]", kind.valueType, schema.get("additionalProperties"))


def _parsed(registered: Registered) -> Any:
    return json.loads(registered.schema)


def _properties(schema: dict[str, Any]) -> dict[str, Any]:
    return dict(schema.get("properties", {}))


def _types(schema: Any) -> set[str]:
    """The types that values may have; empty where any."""
    found = schema.get("type", []) if isinstance(schema, dict) else []
    return {found} if isinstance(found, str) else set(found)


def _taken(kind: DataType) -> set[str]:
    """The JSON types that a column's values are decoded from (``json_types.py``)."""
    if isinstance(kind, IntegralType):
        return {"integer"}
    if isinstance(kind, FloatType | DoubleType):
        return {"integer", "number"}
    if isinstance(kind, DecimalType):
        return {"integer", "number", "string"}
    if isinstance(kind, BooleanType):
        return {"boolean"}
    if isinstance(kind, ArrayType):
        return {"array"}
    return {"object"} if isinstance(kind, StructType | MapType) else {"string"}


def _held(kind: DataType) -> set[str]:
    """The JSON types that take every value of a column, each by itself."""
    if isinstance(kind, IntegralType):
        return {"integer", "number"}
    return _taken(kind) - {"integer"}


def _type_differs(path: str, kind: DataType, types: set[str]) -> str:
    return f"{path or 'it'} is {' or '.join(sorted(types))} there, and {kind.simpleString()} here"


def _dotted(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
