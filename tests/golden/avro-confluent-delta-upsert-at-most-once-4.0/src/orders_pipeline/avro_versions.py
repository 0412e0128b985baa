"""How two versions of an Avro schema differ, where neither Avro nor Spark says a word."""

import json
from collections.abc import Iterator
from typing import Any

# A schema here is JSON in which each name of a type is replaced by that type, and a union is
# {"type": "union", "branches": [...]}.
Schema = dict[str, Any]

_PROMOTED = {"int": ("long", "float", "double"), "long": ("float", "double"), "float": ("double",)}
_UNITS = {
    *("decimal", "date", "time-millis", "time-micros"),
    *("timestamp-millis", "timestamp-micros", "timestamp-nanos"),
    *("local-timestamp-millis", "local-timestamp-micros", "local-timestamp-nanos"),
}
"""The logical types that say what a number counts."""


def unread_fields(reader: str, writer: str) -> list[str]:
    """The fields of the writer's schema that the reader's has not: ``address.zip``, in its order.

    Both are texts that Avro takes. What lies within such a field is not listed again.
    """
    unread = []
    for path, ours, theirs in _pairs(_parsed(reader), _parsed(writer)):
        if theirs["type"] == "record":
            known = {name for field in ours["fields"] for name in _names(field)}
            names = [field["name"] for field in theirs["fields"]]
            unread += [_dotted(path, name) for name in names if name not in known]
    return list(dict.fromkeys(unread))


def other_units(reader: str, writer: str) -> list[str]:
    """A sentence for each field whose bytes both can read, but not as the same amount.

    Avro's resolution looks past logical types: milliseconds would become as many microseconds.
    Where just one of the two has such a type, it is taken to be what the other means.
    """
    found = []
    for path, ours, theirs in _pairs(_parsed(reader), _parsed(writer)):
        read, written = _unit(ours), _unit(theirs)
        if read and written and read != written:
            found.append(f"{path or 'it'} is written as {written} and read as {read}")
    return list(dict.fromkeys(found))


def _unit(schema: Schema) -> str | None:
    logical = schema.get("logicalType")
    if logical == "decimal":
        return f"decimal with scale {schema.get('scale', 0)}"
    return logical if logical in _UNITS else None


def _pairs(reader: Schema, writer: Schema, path: str = "") -> Iterator[tuple[str, Schema, Schema]]:
    """Where Avro reads the one with the other: the place, and both sides of it."""
    if "union" in (reader["type"], writer["type"]):
        for theirs in _branches(writer):
            if (ours := _match(_branches(reader), theirs)) is not None:
                yield from _pairs(ours, theirs, path)
        return
    if reader["type"] != writer["type"] and writer["type"] not in _PROMOTED:
        return
    yield path, reader, writer
    if writer["type"] == "record":
        written = {field["name"]: field["type"] for field in writer["fields"]}
        for field in reader["fields"]:
            name = next((name for name in _names(field) if name in written), None)
            if name is not None:
                yield from _pairs(field["type"], written[name], _dotted(path, name))
    for inner in ("items", "values"):
        if inner in writer:
            yield from _pairs(reader[inner], writer[inner], path)


def _match(branches: list[Schema], writer: Schema) -> Schema | None:
    """The branch that takes what ``writer`` wrote; None if none does."""
    same = [branch for branch in branches if branch["type"] == writer["type"]]
    for branch in same:
        if writer.get("name", "").rpartition(".")[2] in {
            name.rpartition(".")[2] for name in _names(branch)
        }:
            return branch
    promoted = _PROMOTED.get(writer["type"], ())
    return next(
        iter([*same, *(b for kind in promoted for b in branches if b["type"] == kind)]), None
    )


def _branches(schema: Schema) -> list[Schema]:
    return schema["branches"] if schema["type"] == "union" else [schema]


def _names(named: Schema) -> list[str]:
    return [named.get("name", ""), *named.get("aliases", [])]


def _dotted(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _parsed(text: str) -> Schema:
    return _expanded(json.loads(text), "", {})


def _expanded(schema: Any, namespace: str, named: dict[str, Schema]) -> Schema:
    if isinstance(schema, list):
        return {"type": "union", "branches": [_expanded(b, namespace, named) for b in schema]}
    if isinstance(schema, str):
        return named.get(_full(schema, namespace)) or named.get(schema) or {"type": schema}
    kind = schema["type"]
    if not isinstance(kind, str):
        return _expanded(kind, namespace, named)
    expanded = dict(schema)
    for inner in ("items", "values"):
        if kind in ("array", "map") and inner in schema:
            expanded[inner] = _expanded(schema[inner], namespace, named)
    if kind in ("record", "enum", "fixed"):
        name = _full(schema["name"], schema.get("namespace", namespace))
        expanded["name"] = name
        named[name] = expanded  # before its fields, which may mean it
        space = name.rpartition(".")[0]
        expanded["fields"] = [
            {**field, "type": _expanded(field["type"], space, named)}
            for field in schema.get("fields", [])
        ]
        return expanded
    return named.get(_full(kind, namespace), expanded)


def _full(name: str, namespace: str) -> str:
    return f"{namespace}.{name}" if namespace and "." not in name else name
