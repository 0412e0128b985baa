"""How a version of the schema in the registry differs from ours."""

from pathlib import Path
from typing import Any

import pytest

from orders_pipeline.differences import (
    cannot_be_read,
    cannot_read,
    unread_fields,
)
from orders_pipeline.registry import Registered
from orders_pipeline.schema import read_schema
from orders_pipeline.settings import Settings

from scripts.compile_protos import compile_proto

PROTO3 = 'syntax = "proto3"; message Event { '
PROTO2 = 'syntax = "proto2"; message Event { '
INNER = "In a = 1; } message In { int32 x = 1;"

# Our fields, those of the version, and what is said: not read, not readable here, not readable
# there.
COMPARED: list[tuple[str, str, str, str, str]] = [
    (f"{PROTO3} int32 a = 1;", f"{PROTO3} int32 a = 1; string b = 2;", "b", "", ""),
    (f"{PROTO3} int32 a = 1; string b = 2;", f"{PROTO3} int32 renamed = 1;", "", "", ""),
    (
        f"{PROTO3} int64 a = 1;",
        f"{PROTO3} int32 a = 1;",
        *("", "", "a is int32 there, and int64 here"),
    ),
    (
        f"{PROTO3} string a = 1;",
        f"{PROTO3} bytes a = 1;",
        *("", "a is string here, and bytes there", ""),
    ),
    (
        f"{PROTO3} int32 a = 1;",
        f"{PROTO3} repeated int32 a = 1;",
        *("", "a is repeated there, and not here", ""),
    ),
    (
        f"{PROTO3} map<string, int32> a = 1;",
        f"{PROTO3} map<string, double> a = 1;",
        *("", "a.value is int32 here, and double there", "a.value is double there, and int32 here"),
    ),
    (f"{PROTO3} {INNER}", f"{PROTO3} {INNER} bool y = 2;", "a.y", "", ""),
    (
        f"{PROTO2} required int32 a = 1;",
        f"{PROTO2} optional int32 a = 1;",
        *("", "a is required here, and may be missing there", ""),
    ),
    (
        f"{PROTO3} int32 a = 1;",
        'syntax = "proto3"; message Other { int32 a = 1;',
        *("", "it has no message Event", "it has no message Event"),
    ),
    (f"{PROTO3} int32 a = 1;", "{", "", "it does not compile", "it does not compile"),
]


@pytest.mark.parametrize(("ours", "version", "unread", "here", "there"), COMPARED)
def test_fields_of_one_number_are_compared(
    tmp_path: Path, ours: str, version: str, unread: str, here: str, there: str
) -> None:
    (tmp_path / "events.proto").write_text(ours + " }")
    assert compile_proto(tmp_path / "events.proto") is None
    settings: dict[str, Any] = {
        "name": "tests",
        "topics": ["events"],
        "trigger": "availableNow",
        "schemas": tmp_path,
        "table": {"key_columns": ["a"]},
    }
    topic = Settings(**settings).topic_settings("events")
    fields = read_schema(topic)
    found = Registered(1, 1, "PROTOBUF", version + " }", ())

    assert ", ".join(unread_fields(fields, found)) == unread
    assert "; ".join(cannot_read(topic, fields, found)) == here
    assert "; ".join(cannot_be_read(fields, found)) == there
