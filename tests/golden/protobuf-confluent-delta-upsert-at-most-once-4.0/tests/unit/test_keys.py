"""Which row a Kafka key stands for."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from orders_pipeline.errors import SettingsError
from orders_pipeline.key_frames import key_decoder
from orders_pipeline.schema import read_schema
from orders_pipeline.settings import Settings, Topic

from scripts.compile_protos import compile_proto

PAIR = "int32 a = 1; string b = 2;"


def topic_of(folder: Path, key_format: str, fields: str, key_message: str = "") -> Topic:
    """A topic whose fields of this message are its key columns, beside others."""
    messages = {"events": " ".join(["message Event {", fields, "optional string note = 15; }"])}
    if key_message:
        messages["events.key"] = key_message
    for name, text in messages.items():
        source = folder / f"{name}.proto"
        source.write_text('syntax = "proto3"; enum Unit { PIECE = 0; KILO = 1; } ' + text)
        assert compile_proto(source) is None
    names = [field.split()[1] for field in fields.strip("; ").split(";")]
    settings: dict[str, Any] = {
        "name": "tests",
        "topics": ["events"],
        "trigger": "availableNow",
        "schemas": folder,
        "table": {"key_columns": names, "key_format": key_format, "key_framed": False},
    }
    return Settings(**settings).topic_settings("events")


def decoded(topic: Topic, *keys: bytes | None) -> list[Any]:
    """For each key its key columns, or the reason why there are none."""
    rows, reasons, messages = key_decoder(topic, read_schema(topic))()(pa.array(keys, pa.binary()))
    assert rows.is_valid().to_pylist() == reasons.is_null().to_pylist()
    assert messages.is_null() == reasons.is_null()
    return [
        tuple(row.values()) if row else reason
        for row, reason in zip(rows.to_pylist(), reasons.to_pylist(), strict=True)
    ]


@pytest.mark.parametrize(
    ("kind", "keys"),
    [
        ("string", {b"any text": ("any text",), b"": ("",), b"\xff": "undecodable"}),
        ("string", {b"\0\0\0\0\1a": "framed", b"\0\0\0\0": ("\0\0\0\0",)}),
        ("int64", {b"-42": (-42,), b"042": "wrong_type", b"1.0": "wrong_type"}),
        ("int32", {b"2147483647": (2**31 - 1,), b"2147483648": "out_of_range", b"": "wrong_type"}),
        ("uint64", {b"18446744073709551615": (2**64 - 1,), b"-1": "out_of_range"}),
        ("bool", {b"true": (True,), b"True": "wrong_type", None: "null_key"}),
        ("bytes", {b"AAE=": (b"\0\1",), b"+/8=": (b"\xfb\xff",), b"": (b"",)}),
        ("bytes", dict.fromkeys([b"A", b"AAE", b"ab", b"!!", b"-_8=", b"AA E="], "wrong_type")),
        ("double", {b"1.5": (1.5,), b"1_5": "wrong_type"}),
        ("Unit", {b"KILO": ("KILO",), b"TON": "wrong_type"}),
    ],
)
def test_text_is_the_one_key_column(
    tmp_path: Path, kind: str, keys: dict[bytes | None, Any]
) -> None:
    topic = topic_of(tmp_path, "string", f"{kind} id = 1;")
    assert decoded(topic, *keys) == list(keys.values())


def test_json_object_holds_the_key_columns(tmp_path: Path) -> None:
    keys = {
        b'{"a": 1, "b": "x", "other": []}': (1, "x"),
        b'{"b": "x", "a": "1"}': (1, "x"),
        b'{"a": 0, "b": ""}': (0, ""),
        b'{"a": 1}': "missing_field",
        b'{"a": null, "b": "x"}': "missing_field",
        b'{"a": true, "b": "x"}': "wrong_type",
        b'{"a": 1, "b": 2}': "wrong_type",
        b'{"a": 1.5, "b": "x"}': "wrong_type",
        b'{"a": 3000000000, "b": "x"}': "out_of_range",
        b"[1]": "wrong_type",
        b"{": "undecodable",
        b"\xff": "undecodable",
        b'\0\0\0\0\1{"a": 1, "b": "x"}': "framed",
        None: "null_key",
    }
    assert decoded(topic_of(tmp_path, "json", PAIR), *keys) == list(keys.values())


def test_bytes_in_a_json_object_are_base64(tmp_path: Path) -> None:
    keys = {
        b'{"id": "AAE="}': (b"\0\1",),
        b'{"id": ""}': (b"",),
        b'{"id": "!!"}': "wrong_type",
        b'{"id": "AAE"}': "wrong_type",
        b'{"id": "AAE=AAE="}': "wrong_type",
        b'{"id": "\\u00e9"}': "wrong_type",
        b'{"id": 1}': "wrong_type",
        b'{"id": ["AAE="]}': "wrong_type",
    }
    assert decoded(topic_of(tmp_path, "json", "bytes id = 1;"), *keys) == list(keys.values())


def test_json_object_has_a_field_by_either_of_its_names(tmp_path: Path) -> None:
    keys = {
        b'{"order_id": 7}': (7,),
        b'{"orderId": 7}': (7,),
        b'{"orderId": "x"}': "wrong_type",
        b'{"orderId": null}': "missing_field",
        b'{"OrderId": 7}': "missing_field",
        b'{"order_id": 7, "orderId": 7}': "undecodable",
        b'{"order_id": 7, "orderId": null}': "undecodable",
    }
    assert decoded(topic_of(tmp_path, "json", "int64 order_id = 1;"), *keys) == list(keys.values())


def test_key_column_of_a_nested_message_of_the_file_is_found(tmp_path: Path) -> None:
    (tmp_path / "events.proto").write_text(
        'syntax = "proto2"; message Outer { message Event { oneof o { string x = 2; int32 y = 3; } '
        "required int32 id = 1; } }"
    )
    assert compile_proto(tmp_path / "events.proto") is None
    settings: dict[str, Any] = {
        "name": "tests",
        "topics": ["events"],
        "trigger": "availableNow",
        "schemas": tmp_path,
        "table": {"key_columns": ["id"], "key_format": "json", "key_framed": False},
        "decode": {"messages": {"events": "Outer.Event"}},
    }
    topic = Settings(**settings).topic_settings("events")
    assert decoded(topic, b'{"id": 7, "x": "y"}') == [(7,)]


def test_message_holds_none_of_the_key(tmp_path: Path) -> None:
    topic = topic_of(tmp_path, "json", PAIR)
    keys = [b'{"a": "4111-secret", "b": "x"}', b'{"a": 41110000000000, "b": ""}', b"4111-secret"]
    found = key_decoder(topic, read_schema(topic))()(pa.array(keys, pa.binary()))
    assert found.reasons.null_count == 0
    assert not [text for text in found.messages.to_pylist() if "4111" in text]


def test_message_holds_the_key_columns(tmp_path: Path) -> None:
    message = "message Key { string b = 1; optional int32 a = 2; int64 other = 3; }"
    keys = {
        b"\x0a\1x\x10\1\x18\2": (1, "x"),
        b"\x10\1": (1, ""),
        b"\x0a\1x": "missing_field",
        b"\x0a\1": "undecodable",
        b"\0\0\0\0\1\x10\1": "framed",
        None: "null_key",
    }
    topic = topic_of(tmp_path, "protobuf", PAIR, message)
    assert decoded(topic, *keys) == list(keys.values())


@pytest.mark.parametrize(
    ("key_format", "key_message", "words"),
    [
        ("string", "", "use the key format json or protobuf"),
        ("protobuf", "", r"events\.key\.proto is missing"),
        ("protobuf", "message Key { string b = 1; }", "'a': .* is missing"),
        ("protobuf", "message Key { int64 a = 1; string b = 2; }", "to be int32 .* is int64"),
    ],
)
def test_key_that_cannot_hold_the_key_columns_is_refused(
    tmp_path: Path, key_format: str, key_message: str, words: str
) -> None:
    topic = topic_of(tmp_path, key_format, PAIR, key_message)
    with pytest.raises(SettingsError, match=words):
        key_decoder(topic, read_schema(topic))
