"""The message index of framed Protobuf values: found, taken off, or the record rejected."""

from pathlib import Path

import pyarrow as pa
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet

from tryout.decode import make_decoder
from tryout.message_index import make_indexed_decoder, read_index, written_index

ORDERS = (Path(__file__).parent / "schemas/orders.binpb").read_bytes()
FILE = FileDescriptorSet.FromString(ORDERS).file[-1]
SWAPPED = FileDescriptorProto.FromString(FILE.SerializeToString())
SWAPPED.message_type.sort(key=lambda message: message.name, reverse=True)  # Refund, Order, Note


def decode(message: str, *values: tuple[bytes | None, int | None]):
    reader = make_decoder(ORDERS, message, "ignore")
    decode_indexed = make_indexed_decoder(reader, {1: FILE, 2: SWAPPED}, message)
    texts, ids = zip(*values, strict=True)
    decoded = decode_indexed(pa.array(texts, pa.binary()), pa.array(ids, pa.int64()))
    assert {len(column) for column in decoded} == {len(values)}
    return decoded


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
def test_index_is_read_in_all_its_forms(text, path):
    assert read_index(text + b"\x08\x01") == (path, len(text))


@pytest.mark.parametrize("text", [b"", b"\x02", b"\x04\x02", b"\x80", b"\x01\x00", b"\xff" * 50])
def test_index_is_refused_when_it_is_cut_off_or_none(text):
    assert read_index(text) is None


def test_index_is_written_as_it_is_read():
    for path in [(0,), (1, 0), (128, 3), (70_000,)]:
        assert read_index(written_index(path)) == (path, len(written_index(path)))


def test_values_pass_without_their_index_when_it_names_the_message():
    found = decode(
        "shop.Order", (b"\0\x08\x01", 1), (b"\x02\0\x08\x02", 1), (b"\x02\x02\x08\x03", 2)
    )
    assert found.rows.field("id").to_pylist() == [1, 2, 3]
    assert found.reasons.null_count == 3


def test_nested_message_is_found():
    found = decode("shop.Refund.Line", (b"\x04\x02\0\x08\x07", 1), (b"\x04\0\0\x08\x08", 2))
    assert found.rows.to_pylist() == [{"n": 7}, {"n": 8}]


def test_overlong_index_is_read_like_any_other():
    assert decode("shop.Order", (b"\x82\x00\x80\x00\x08\x09", 1)).rows.field("id").to_pylist() == [
        9
    ]


def test_value_is_rejected_by_its_name_when_it_is_another_message():
    found = decode(
        "shop.Order",
        (b"\0\x08\x01", 1),
        (b"\x02\x02\x08\x01", 1),
        (b"\x02\x04\x0a\0", 1),
        (b"\x04\x02\0\x08\x01", 1),
        (b"\0\x08\x01", 2),
        (b"\x02\x12\x08\x01", 1),
        (b"\x02", 1),
        (b"", 1),
        (None, None),
    )
    assert found.rows.is_valid().to_pylist() == [True] + [False] * 8
    wrong = ["wrong_message"] * 5
    assert found.reasons.to_pylist() == [None, *wrong, "undecodable", "undecodable", None]
    assert found.messages.to_pylist()[1:6] == [
        f"The message is {name}; this topic's records are shop.Order"
        for name in (
            "shop.Refund",
            "shop.Note",
            "shop.Refund.Line",
            "shop.Refund",
            "number [9] of its file, which has no such message",
        )
    ]


def test_empty_record_passes_when_only_its_index_is_there():
    assert decode("shop.Order", (b"\0", 1)).rows.field("id").to_pylist() == [0]
