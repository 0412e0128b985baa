"""The header that a schema registry's serializer puts before a value, and the message's index."""

from base64 import b64encode
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf.descriptor_pb2 import (
    FieldDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
)

from orders_pipeline import message_index
from orders_pipeline.decode import Decoded, make_decoder
from orders_pipeline.framing import make_framed_decoder
from orders_pipeline.protobuf_versions import messages_by_id
from orders_pipeline.registry import Reference, Registered

LARGEST = 2**32 - 1
NAMES = ("Order", "Refund", "Note")
BROKEN = 9


def file_of(*names: str) -> FileDescriptorProto:
    """A file with these messages, each with a message Line and a number."""
    file = FileDescriptorProto(name="shop.proto", package="shop", syntax="proto3")
    for name in names:
        message = file.message_type.add(name=name)
        line = message.nested_type.add(name="Line")
        for each in (message, line):
            each.field.add(
                name="n",
                number=1,
                type=FieldDescriptorProto.TYPE_INT32,
                label=FieldDescriptorProto.LABEL_OPTIONAL,
            )
    return file


def version(schema_id: int, schema: str, *references: Reference) -> Registered:
    return Registered(schema_id, 1, "PROTOBUF", schema, references)


def text_of(file: FileDescriptorProto) -> str:
    return b64encode(file.SerializeToString()).decode()


VERSIONS = {
    7: version(7, text_of(file_of(*NAMES))),
    LARGEST: version(LARGEST, text_of(file_of(*reversed(NAMES)))),
    BROKEN: version(BROKEN, "message Order {"),
}


def decoder(message: str = "shop.Order") -> Any:
    files = FileDescriptorSet(file=[file_of(*NAMES)]).SerializeToString()
    decode = make_decoder(files, message, "ignore")
    indexed = message_index.make_indexed_decoder(decode, messages_by_id(VERSIONS), message)
    return make_framed_decoder(indexed, VERSIONS)


def frame(schema_id: int, payload: bytes = b"\0\x08\1") -> bytes:
    return b"\0" + schema_id.to_bytes(4, "big") + payload


def decode(*values: bytes | None, message: str = "shop.Order") -> Decoded:
    decoded: Decoded = decoder(message)(pa.array(values, pa.binary()))
    assert {len(column) for column in decoded} == {len(values)}
    return decoded


def test_value_of_every_known_schema_is_decoded_without_header_and_index() -> None:
    decoded = decode(
        frame(7),
        None,
        frame(7, b"\2\0\x08\2"),
        frame(LARGEST, b"\2\4\x08\3"),
        frame(7, b"\x82\0\x80\0\x08\4"),
        frame(7, b"\0"),
    )
    assert decoded.rows.field("n").to_pylist() == [1, None, 2, 3, 4, 0]
    assert decoded.rows.null_count == 1
    assert decoded.reasons.null_count == 6


def test_nested_message_is_found_by_its_place_in_each_version() -> None:
    values = frame(7, b"\4\0\0\x08\7"), frame(LARGEST, b"\4\4\0\x08\x08")
    assert decode(*values, message="shop.Order.Line").rows.to_pylist() == [{"n": 7}, {"n": 8}]


@pytest.mark.parametrize(
    ("value", "reason", "message"),
    [
        (b"\x08\1", "not_framed", "zero byte"),
        (b"", "not_framed", "zero byte"),
        (b"\0\0\0\0", "not_framed", "zero byte"),
        (frame(8), "unknown_schema", "8"),
        (frame(BROKEN), "unknown_schema", "9 does not compile"),
        (frame(7, b""), "undecodable", "no message index"),
        (frame(7, b"\2"), "undecodable", "no message index"),
        (frame(7, b"\0\x08"), "undecodable", "cut off"),
        (frame(7, b"\0\x0a\0"), "wrong_type", "`shop.Order.n` has another wire type"),
        (frame(7, b"\2\2\x08\1"), "wrong_message", "The message is shop.Refund;"),
        (frame(7, b"\2\4\x08\1"), "wrong_message", "The message is shop.Note;"),
        (frame(LARGEST), "wrong_message", "The message is shop.Note;"),
        (frame(7, b"\4\2\0\x08\1"), "wrong_message", "The message is shop.Refund.Line;"),
        (frame(7, b"\2\x12\x08\1"), "wrong_message", "number [9] of its file"),
    ],
)
def test_value_is_rejected_with_its_reason_and_its_neighbours_are_not(
    value: bytes, reason: str, message: str
) -> None:
    decoded = decode(frame(7), value, frame(7, b"\0\x08\2"))
    assert decoded.rows.is_valid().to_pylist() == [True, False, True]
    assert decoded.reasons.to_pylist() == [None, reason, None]
    assert message in decoded.messages[1].as_py()


@pytest.mark.parametrize("values", [(), (None,), (None, None)])
def test_batch_without_a_value_has_no_row_and_no_reason(values: tuple[None, ...]) -> None:
    decoded = decode(*values)
    assert decoded.rows.null_count == decoded.reasons.null_count == len(values)


@pytest.mark.parametrize(
    ("text", "path"),
    [
        (b"\x00", (0,)),
        (b"\x02\x00", (0,)),
        (b"\x02\x04", (2,)),
        (b"\x04\x02\x00", (1, 0)),
        (b"\x02\x80\x02", (128,)),
        (b"\x02\x01", (-1,)),
    ],
)
def test_index_is_read_in_all_its_forms(text: bytes, path: tuple[int, ...]) -> None:
    assert message_index.read_index(text + b"\x08\x01") == (path, len(text))


@pytest.mark.parametrize("text", [b"", b"\x02", b"\x04\x02", b"\x80", b"\x01\x00", b"\xff" * 50])
def test_index_that_is_cut_off_or_none_is_refused(text: bytes) -> None:
    assert message_index.read_index(text) is None


def test_index_is_written_as_it_is_read() -> None:
    for path in [(0,), (1, 0), (128, 3), (70_000,)]:
        text = message_index.written_index(path)
        assert message_index.read_index(text) == (path, len(text))


# --- what the registry holds


def test_schema_that_is_text_is_compiled_with_what_it_refers_to() -> None:
    base = 'syntax = "proto3"; package a.b; message Base { int32 n = 1; }'
    middle = 'syntax = "proto3"; import "a/b/base.proto"; message Middle { a.b.Base b = 1; }'
    described = text_of(FileDescriptorProto(name="x", message_type=[{"name": "Described"}]))  # type: ignore[list-item]
    text = (
        'syntax = "proto3"; package top; import "middle.proto"; import "described.proto"; '
        'import "google/protobuf/timestamp.proto"; message A { Middle m = 1; Described d = 2; '
        "message B { google.protobuf.Timestamp t = 1; } map<string, B> c = 3; } message D {}"
    )
    texts = {"a/b/base.proto": base, "middle.proto": middle, "described.proto": described}
    found = messages_by_id({1: version(1, text, *(Reference(*each) for each in texts.items()))})
    assert found == {1: dict(zip([(0,), (0, 0), (1,)], ["top.A", "top.A.B", "top.D"], strict=True))}


def test_place_that_is_of_two_messages_is_of_none() -> None:
    """A map or a group before the messages within: as protoc counts, and as the text has them."""
    text = (
        'syntax = "proto2"; message A { map<string, string> tags = 1; optional group G = 2 {} '
        "message B {} message C {} message D {} }"
    )
    found = messages_by_id({1: version(1, text)})[1]
    # In the text B, C and D are 0, 1 and 2; to protoc 2, 3 and 4, and the group is 1.
    places = {(0,): "A", (0, 0): "A.B", (0, 3): "A.C", (0, 4): "A.D"}
    assert found == places


@pytest.mark.parametrize(
    "broken",
    [
        version(1, 'syntax = "proto3"; import "nowhere.proto"; message A {}'),
        version(1, 'syntax = "proto3"; message A {}', Reference("../../out.proto", "")),
        version(1, "message A {"),
        version(1, ""),
    ],
)
def test_schema_that_does_not_compile_is_none_and_logged(
    broken: Registered, caplog: pytest.LogCaptureFixture
) -> None:
    assert messages_by_id({1: broken}) in ({1: None}, {1: {}})
    assert broken.schema == "" or "schema 1 of the registry does not compile" in caplog.text
