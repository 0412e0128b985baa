"""What the Protobuf decoder takes, what it refuses and with which reason."""

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.message_factory import GetMessageClass

from compile_protos import compile_proto
from tryout.decode import Decoded, decode_values, make_decoder
from tryout.errors import SettingsError
from tryout.protobuf_files import find_message, record_message
from tryout.protobuf_types import arrow_fields

SCHEMAS = Path(__file__).parent / "schemas"


def schema(name: str) -> bytes:
    return (SCHEMAS / f"{name}.binpb").read_bytes()


ORDERS = schema("orders")
Order = GetMessageClass(find_message(ORDERS, "shop.Order"))
ITEM = {"sku": "", "qty": 0, "unit": "PIECE", "packed_at": None, "stages": [], "percent": None}
PAIR = b"\x42\x01a\x42\x01b"  # the field card, twice


def decode(*values: bytes | None, name: str = "orders", unknown="ignore") -> Decoded:
    message = record_message(schema(name))
    decoded = decode_values(pa.array(values, pa.binary()), schema(name), message, unknown)
    decoded.rows.validate(full=True)
    assert decoded.rows.type == pa.struct(list(arrow_fields(schema(name), message)))
    assert {len(column) for column in decoded} == {len(values)}
    return decoded


def row(value: bytes, name: str = "orders") -> dict:
    decoded = decode(value, name=name)
    assert decoded.messages.to_pylist() == [None]
    return decoded.rows.to_pylist()[0]


def rejection(value: bytes, name: str = "orders", unknown="ignore") -> tuple[str, str]:
    good = b"" if name == "orders" else b"\x08\x01\x18\x05"
    decoded = decode(good, value, None, good, name=name, unknown=unknown)
    assert decoded.rows.is_valid().to_pylist() == [True, False, False, True]
    assert decoded.reasons.is_valid().to_pylist() == [False, True, False, False]
    return decoded.reasons[1].as_py(), decoded.messages[1].as_py()


def test_empty_value_is_a_record_of_defaults():
    found = row(b"")
    assert {name: value for name, value in found.items() if value not in (None, [])} == {
        "id": 0,
        "status": "STATUS_UNKNOWN",
    }


def test_field_is_null_when_it_can_be_told_absent():
    found = row(Order(id=1, note="").SerializeToString())
    assert (found["note"], found["previous"], found["at"], found["nothing"]) == (
        "",
        None,
        None,
        None,
    )
    assert row(Order(nothing={}).SerializeToString())["nothing"] is True


def test_time_is_cut_off_at_the_microseconds():
    order = Order(at={"seconds": -1, "nanos": 999_999_999}, took={"seconds": -1, "nanos": -1_999})
    found = row(order.SerializeToString())
    assert found["at"] == datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC)
    assert found["took"] == -1_000_001


def test_enum_is_its_first_name_or_its_digits_when_it_has_none():
    found = row(Order(status=2, previous=77, statuses=[-1, 1]).SerializeToString())
    assert (found["status"], found["previous"]) == ("PAID", "77")
    assert found["statuses"] == ["VOID", "NEW"]
    assert row(b"\x08\x01\x18\x63\x20\x64", "legacy")["color"] == "99"


def test_struct_is_json_with_its_keys_in_order():
    order = Order(extra={"b": [1, None], "a": "\u00e9"}, any_value={"bool_value": True})
    found = row(order.SerializeToString())
    assert (found["extra"], found["any_value"]) == ('{"a": "\u00e9", "b": [1.0, null]}', "true")


def test_unsigned_number_is_kept_when_it_is_over_the_signed_ones():
    found = row(b"\x30" + b"\xff" * 9 + b"\x01" + b"\x28\xff\xff\xff\xff\x0f", "scalars")
    assert (found["u64"], found["u32"]) == (Decimal(2**64 - 1), 2**32 - 1)


def test_proto2_default_is_not_made_up():
    found = row(b"\x08\x01\x18\x05", "legacy")
    assert (found["id"], found["color"], found["note"], found["shade"]) == (1, "RED", None, None)


def test_last_member_counts_when_a_oneof_is_set_twice():
    found = row(Order(card="a").SerializeToString() + Order(voucher=3).SerializeToString())
    assert (found["card"], found["voucher"]) == (None, 3)


def test_last_entry_counts_when_a_map_has_a_key_twice():
    twice = Order(scores={"a": 1}).SerializeToString() + Order(scores={"a": 2}).SerializeToString()
    assert row(twice)["scores"] == [("a", 2)]


def test_map_value_is_a_default_message_when_the_entry_has_none():
    [(number, item)] = row(b"\x72\x02\x08\x07")["by_line"]
    assert number == 7
    assert item == {**ITEM, "amount": None}


def test_message_is_merged_when_it_comes_twice():
    parts = Order(total={"units": 5}), Order(total={"currency": "EUR"})
    found = row(b"".join(part.SerializeToString() for part in parts))
    assert found["total"] == {"currency": "EUR", "units": 5, "nanos": 0}


def test_editions_are_read_by_their_features():
    found = row(b"\x18\x01\x20\x01\x20\x02", "modern")
    assert found == {
        "explicit": None, "implicit": 0, "required": 1, "expanded": [1, 2], "kind": None,
        "text": None,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("value", "reason", "words"),
    [
        (b"\x12\x05ab", "undecodable", "cut off, or not a shop.Order"),
        (b"\x08\x01\x00", "undecodable", "cut off, or not a shop.Order"),
        (b"\x08\x01\x0c", "undecodable", "cut off, or not a shop.Order"),
        (b"\x12" + b"\xff" * 9 + b"\x01abc", "undecodable", "cut off, or not a shop.Order"),
        (b"\x88\x80\x80\x80\x80\x80\x00\x05", "undecodable", "cut off, or not a shop.Order"),
        (b"\x0a", "undecodable", "cut off"),
        (b'{"id": 1}', "undecodable", "cut off"),
        (b"\0\0\0\0\x07\0\x08\x01", "undecodable", "a registry's framing, not bare Protobuf"),
        (b"\x12\x01\xff", "undecodable", "not UTF-8"),
        (b"\x12\x03\xed\xa0\x80", "undecodable", "not UTF-8"),
        (b"\x7a\x01\x08", "undecodable", "Not a Struct, Value or ListValue - at `$.extra`"),
        (b"\x0a\x011", "wrong_type", "`shop.Order.id` has another wire type than in the schema"),
        (b"\x2a\x02\x08\x01", "wrong_type", "`shop.Order.Item.sku` has another wire type"),
        (b"\xf8\x07\x01\x2a\x02\x08\x01", "wrong_type", "`shop.Order.Item.sku` has another"),
        (b"\x32\x02\x10\x80", "undecodable", "cut off"),
        (b"\x32\x06\x10\x80\x94\xeb\xdc\x03", "out_of_range", "the years 1 to 9999 - at `$.at`"),
        (
            b"\x2a\x08\x22\x06\x10\x80\x94\xeb\xdc\x03",
            "out_of_range",
            "at `$.items[...].packed_at`",
        ),
        (b"\x3a\x04\x08\x01\x10" + b"\x80", "undecodable", "cut off"),
    ],
)
def test_record_is_rejected_when_it_cannot_be_a_row(value, reason, words):
    found = rejection(value)
    assert found[0] == reason
    assert words in found[1]


def test_number_that_json_has_not_is_out_of_range():
    order = Order(any_value={"number_value": float("nan")})
    assert rejection(order.SerializeToString())[0] == "out_of_range"


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (b"", "Message missing required field - at `$.id`"),
        (b"\x08\x01", "Message missing required field - at `$.color`"),
        (b"\x08\x01\x18\x05\x2a\x02\x10\x01", "required field - at `$.parts[...].name`"),
        (b"\x08\x01\x18\x05\x3a\x03\x0a\x01a", "required field - at `$.by_name[...].name`"),
    ],
)
def test_record_is_rejected_when_a_required_field_is_missing(value, words):
    reason, message = rejection(value, "legacy")
    assert reason == "missing_field"
    assert words in message


@pytest.mark.parametrize(
    "value", [b"\xf8\x07\x01", b"\xfb\x07\x08\x01\xfc\x07", b"\xa2\x01\x02\x20\x05"]
)
def test_unknown_field_is_ignored_or_rejected_as_the_settings_say(value):
    assert row(b"\x08\x05" + value)["id"] == 5
    assert rejection(value, unknown="reject")[0] == "unknown_field"


def test_packed_and_unpacked_numbers_are_read_alike():
    assert row(b"\x08\x01\x18\x05\x5a\x02\x01\x02\x60\x01\x60\x02", "legacy")["packed"] == [1, 2]


def test_null_value_has_neither_row_nor_reason():
    for other in (b"\x08\x01", b"\xf8\x07\x01"):
        decoded = decode(None, other)
        assert decoded.rows.is_valid().to_pylist() == [False, True]
        assert decoded.reasons.null_count == 2
    assert decode(None, b"\x0a").reasons.to_pylist() == [None, "undecodable"]
    assert decode(None).rows.to_pylist() == [None]
    assert decode().rows.to_pylist() == []


def test_rows_keep_their_order_when_some_values_are_rejected():
    kinds = [b"\x08\x81", b"\x42\x01a\x48\x02", b"\xf8\x07\x01", b"", b"\x0a\x01a"]
    values = [b"\x08%c" % (n % 100) + kinds[n % 5] for n in range(1000)]
    decoded = decode(*values)
    ids = decoded.rows.field("id").filter(decoded.rows.is_valid()).to_pylist()
    assert ids == [n % 100 for n in range(1000) if n % 5 in (1, 2, 3)]
    assert set(decoded.reasons.to_pylist()[0::5]) == {"undecodable"}
    assert set(decoded.reasons.to_pylist()[4::5]) == {"wrong_type"}


def test_sliced_values_are_read_where_they_are():
    decode_batch = make_decoder(ORDERS, "shop.Order", "ignore")
    values = pa.array([b"\x08%c" % n for n in range(100)] + [b"\x0a", None], pa.binary())
    assert decode_batch(values.slice(97)).rows.field("id").to_pylist()[:3] == [97, 98, 99]


def test_message_holds_none_of_the_value():
    values = [b"\x124111-secret", b"\x12\x0c4111-secret\xff", b"4111-secret", b"\0\0004111-secret"]
    decoded = decode(*values)
    assert decoded.reasons.null_count == 0
    assert not [text for text in decoded.messages.to_pylist() if "secret" in text]


@pytest.mark.parametrize(
    ("proto", "words"),
    [
        ("message A { A a = 1; }", "A contains itself, and a table cannot nest without end"),
        ("message A { map<string, B> b = 1; } message B { A a = 1; }", "A contains itself"),
        ("message A { int32 x = 2000000; }", r"A.x has the number 2000000. Numbers up to 1000000"),
        ("message A {}", "A has no fields"),
    ],
)
def test_decoder_is_refused_when_a_message_cannot_be_a_row(tmp_path, proto, words):
    (tmp_path / "a.proto").write_text(f'syntax = "proto3"; {proto}')
    assert compile_proto(tmp_path, "a.proto") is None
    with pytest.raises(SettingsError, match=words):
        make_decoder((tmp_path / "a.binpb").read_bytes(), "A", "ignore")


def test_group_is_refused_with_a_sentence(tmp_path):
    text = 'syntax = "proto2"; message A { optional group G = 1 { optional int32 x = 1; } }'
    (tmp_path / "a.proto").write_text(text)
    assert compile_proto(tmp_path, "a.proto") is None
    with pytest.raises(SettingsError, match=r"A.g is a group, which cannot be read: use a message"):
        arrow_fields((tmp_path / "a.binpb").read_bytes(), "A")


def test_message_is_the_first_of_its_file_or_the_one_named():
    assert record_message(ORDERS) == "shop.Order"
    assert record_message(ORDERS, "Refund.Line") == record_message(ORDERS, "shop.Refund.Line")
    with pytest.raises(
        SettingsError, match=r"has no message 'Cart'. It has: shop.Order, shop.Order"
    ):
        record_message(ORDERS, "Cart")


def test_message_is_found_when_protobufs_own_files_are_left_out_and_the_order_is_another():
    files = FileDescriptorSet.FromString(ORDERS).file
    own = FileDescriptorSet(file=[f for f in reversed(files) if not f.name.startswith("google/")])
    assert arrow_fields(own.SerializeToString(), "shop.Order") == arrow_fields(ORDERS, "shop.Order")
    del own.file[1:]
    with pytest.raises(SettingsError, match=r"no usable message 'shop.Order'"):
        arrow_fields(own.SerializeToString(), "shop.Order")


def test_compiler_says_what_protoc_says_and_what_to_do(tmp_path):
    (tmp_path / "a.proto").write_text('syntax = "proto3";\nmessage A { strin x = 1; }')
    assert "Mend the line that protoc names" in compile_proto(tmp_path, "a.proto")
    assert '"strin" is not defined' in compile_proto(tmp_path, "a.proto")
    (tmp_path / "a.proto").write_text('syntax = "proto3";\nimport "b.proto";')
    assert f"Put every file that it imports into {tmp_path}" in compile_proto(tmp_path, "a.proto")
    assert not list(tmp_path.glob("*.binpb*"))
    assert "c.proto is missing" in compile_proto(tmp_path, "c.proto")
