"""What the Protobuf decoder takes, what it refuses and with which reason."""

import tempfile
from datetime import UTC, datetime
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.message_factory import GetMessageClass

from orders_pipeline.decode import Decoded, decode_values, make_decoder
from orders_pipeline.errors import SettingsError
from orders_pipeline.protobuf_files import find_message, record_message
from orders_pipeline.protobuf_types import arrow_fields

from scripts.compile_protos import check_proto, compile_proto

Unknown = Literal["ignore", "reject"]
SOURCES = {
    "orders": """
syntax = "proto3";
package shop;
import "google/protobuf/duration.proto";
import "google/protobuf/empty.proto";
import "google/protobuf/struct.proto";
import "google/protobuf/timestamp.proto";
import "money.proto";

enum Status {
  option allow_alias = true;
  STATUS_UNKNOWN = 0; NEW = 1; PAID = 2; SETTLED = 2; VOID = -1;
}
message Order {
  message Item {
    enum Unit { PIECE = 0; KILO = 1; }
    string sku = 1;
    int32 qty = 2;
    Unit unit = 3;
    google.protobuf.Timestamp packed_at = 4;
    map<string, google.protobuf.Timestamp> stages = 5;
    oneof discount { double percent = 6; Money amount = 7; }
  }
  int64 id = 1;
  optional string note = 2;
  Status status = 3;
  optional Status previous = 4;
  repeated Item items = 5;
  google.protobuf.Timestamp at = 6;
  google.protobuf.Duration took = 7;
  oneof payment { string card = 8; int32 voucher = 9; Item barter = 11; }
  map<string, int32> scores = 12;
  map<int32, Item> by_line = 14;
  google.protobuf.Struct extra = 15;
  google.protobuf.Value any_value = 16;
  google.protobuf.Empty nothing = 19;
  Money total = 20;
  repeated Status statuses = 26;
}
message Refund {
  message Line { int32 n = 1; }
  Line line = 2;
}
""",
    "money": """
syntax = "proto3";
package shop;
message Money { string currency = 1; int64 units = 2; sint32 nanos = 3; }
""",
    "numbers": """
syntax = "proto3";
message Numbers { uint32 u32 = 5; uint64 u64 = 6; }
""",
    "legacy": """
syntax = "proto2";
package old;
message Legacy {
  enum Color { RED = 5; GREEN = 7; }
  message Part {
    required string name = 1;
    optional int32 n = 2 [default = 42];
  }
  required int64 id = 1;
  optional string note = 2 [default = "none"];
  required Color color = 3;
  optional Color shade = 4 [default = GREEN];
  repeated Part parts = 5;
  map<string, Part> by_name = 7;
  repeated int32 packed = 12 [packed = true];
}
""",
    "modern": """
edition = "2023";
message Modern {
  int32 explicit = 1;
  int32 implicit = 2 [features.field_presence = IMPLICIT];
  int64 required = 3 [features.field_presence = LEGACY_REQUIRED];
  repeated int32 expanded = 4 [features.repeated_field_encoding = EXPANDED];
}
""",
}


@cache
def schema(name: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        for each, text in SOURCES.items():
            Path(folder, f"{each}.proto").write_text(text)
        assert compile_proto(Path(folder, f"{name}.proto")) is None
        return Path(folder, f"{name}.binpb").read_bytes()


ORDERS = schema("orders")
Order: Any = GetMessageClass(find_message(ORDERS, "shop.Order"))
ITEM = {"sku": "", "qty": 0, "unit": "PIECE", "packed_at": None, "stages": [], "percent": None}


def decode(*values: bytes | None, name: str = "orders", unknown: Unknown = "ignore") -> Decoded:
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


def rejection(value: bytes, name: str = "orders", unknown: Unknown = "ignore") -> tuple[str, str]:
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
    found = row(b"\x30" + b"\xff" * 9 + b"\x01" + b"\x28\xff\xff\xff\xff\x0f", "numbers")
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
        "explicit": None,
        "implicit": 0,
        "required": 1,
        "expanded": [1, 2],
    }


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
        (b"\0\0\0\0\x07\x08\x01", "undecodable", "cut off"),
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


@pytest.mark.parametrize("unknown", ["ignore", "reject"])
def test_record_is_rejected_when_ptars_alone_refuses_it(unknown: Unknown) -> None:
    refused = b"\x08\x01\xfb\x7f\x05\0\0\0\0\xfc\x7f"  # an unknown group, and in it a field 0
    assert Order.FromString(refused).id == 1
    words = "ptars refuses the value, though google.protobuf reads it"
    assert rejection(refused, unknown=unknown) == ("undecodable", words)
    values: list[bytes | None] = [b"\x08%c" % n for n in range(100)]
    places = {0: refused, 50: refused, 51: b"\x08", 52: None, 99: refused}
    for place, value in places.items():
        values[place] = value
    decoded = decode(*values, unknown=unknown)
    ids = decoded.rows.field("id").filter(decoded.rows.is_valid()).to_pylist()
    assert ids == [n for n in range(100) if n not in places]
    assert [n for n, reason in enumerate(decoded.reasons.to_pylist()) if reason] == [0, 50, 51, 99]


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


def test_fields_of_a_newer_writer_are_left_out_when_every_record_has_them():
    decode_batch = make_decoder(ORDERS, "shop.Order", "ignore")
    new = b"\xa0\x06\x07\xaa\x06\x01x\xb5\x06abcd\xb9\x06abcdefgh"  # 100 to 103, one a wire type
    item = b"\x2a\x0a\x0a\x01s\xa0\x06\x07\xaa\x06\x01x"  # with two of them itself
    values = [b"\x08%c" % (n + 1) + item + new for n in range(100)]
    others = [b"\x08\x81", b"\x0a\x01a" + new, values[0] + new]
    reasons = ["undecodable", "wrong_type", None]
    for more in (0, 3):
        found = [*values, *others[:more]]
        decoded = decode_batch(pa.array(found, pa.binary()))
        rows = decoded.rows.to_pylist()
        assert [row["id"] for row in rows[:100]] == [n + 1 for n in range(100)]
        assert [row["items"][0]["sku"] for row in rows[:100]] == ["s"] * 100
        assert decoded.reasons.to_pylist()[100:] == reasons[:more]
    assert rows[102]["id"] == 1


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
        ("message A { optional group G = 1 { optional int32 x = 1; } }", "A.g is a group"),
    ],
)
def test_message_that_cannot_be_a_row_is_refused(tmp_path, proto, words):
    version = "proto2" if "group" in proto else "proto3"
    source = tmp_path / "a.proto"
    source.write_text(f'syntax = "{version}"; {proto}')
    assert compile_proto(source) is None
    with pytest.raises(SettingsError, match=words):
        make_decoder(source.with_suffix(".binpb").read_bytes(), "A", "ignore")


def test_message_is_the_first_of_its_file_or_the_one_named():
    assert record_message(ORDERS) == "shop.Order"
    assert record_message(ORDERS, "Refund.Line") == record_message(ORDERS, "shop.Refund.Line")
    with pytest.raises(SettingsError, match=r"no message 'Cart'. It has: shop.Order, shop.Order"):
        record_message(ORDERS, "Cart")


def test_message_is_found_without_protobufs_own_files_and_in_any_order():
    files = FileDescriptorSet.FromString(ORDERS).file
    own = FileDescriptorSet(file=[f for f in reversed(files) if not f.name.startswith("google/")])
    assert arrow_fields(own.SerializeToString(), "shop.Order") == arrow_fields(ORDERS, "shop.Order")
    del own.file[1:]
    with pytest.raises(SettingsError, match=r"no usable message .shop\.Order"):
        arrow_fields(own.SerializeToString(), "shop.Order")


# --- the compiler


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("message A { strin x = 1; }", '"strin" is not defined'),
        ("message A { strin x = 1; }", "Mend the line that protoc names"),
        ('import "b.proto";', "Put every file that it imports into"),
        (None, "a.proto is missing"),
    ],
)
def test_compiler_says_what_is_wrong_and_what_to_do(tmp_path, text, words):
    source = tmp_path / "a.proto"
    if text:
        source.write_text(f'syntax = "proto3"; {text}')
    assert words in (compile_proto(source) or "")
    assert not list(tmp_path.glob("*.binpb*"))


def test_compiled_schema_is_stale_once_a_file_that_it_came_from_has_changed(tmp_path):
    for name in ("orders", "money", "numbers"):
        (tmp_path / f"{name}.proto").write_text(SOURCES[name])
    source = tmp_path / "orders.proto"
    assert "is not what" in (check_proto(source) or "")
    assert compile_proto(source) is None
    (tmp_path / "numbers.proto").write_text("")
    assert check_proto(source) is None
    for name in ("orders", "money"):
        (tmp_path / f"{name}.proto").write_text(SOURCES[name] + "// more")
        assert "make protos" in (check_proto(source) or "")
        assert compile_proto(source) is None
        assert check_proto(source) is None
