"""What the JSON decoder takes, what it refuses and with which reason."""

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Literal

import pyarrow as pa
import pytest

from orders_pipeline.decode import Decoded, decode_values, make_decoder
from orders_pipeline.errors import SettingsError

ORDERS = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("qty", pa.int32()),
        pa.field("price", pa.decimal128(10, 2)),
        pa.field("weight", pa.float64()),
        pa.field("paid", pa.bool_()),
        pa.field("note", pa.string()),
        pa.field("raw", pa.binary()),
        pa.field("day", pa.date32()),
        pa.field("at", pa.timestamp("us", tz="UTC")),
        pa.field("local", pa.timestamp("us")),
        pa.field("tags", pa.list_(pa.field("element", pa.string(), nullable=False))),
        pa.field("buyer", pa.struct([pa.field("name", pa.string(), nullable=False)])),
        pa.field("scores", pa.map_(pa.string(), pa.int8())),
    ]
)
ROW = dict.fromkeys(ORDERS.names)
Unknown = Literal["ignore", "reject"]
DEEP = b"[" * 100_000
TINY = pa.schema([("a", pa.int32()), ("b", pa.string())])


def decode(*values: bytes | None, schema: pa.Schema = TINY, unknown: Unknown = "ignore") -> Decoded:
    decoded = decode_values(pa.array(values, pa.binary()), schema, unknown)
    assert decoded.rows.type == pa.struct(list(schema))
    assert {len(column) for column in decoded} == {len(values)}
    return decoded


def rows(*values: bytes | None, schema: pa.Schema = TINY) -> list:
    decoded = decode(*values, schema=schema)
    assert decoded.messages.to_pylist() == [None] * len(values)
    return decoded.rows.to_pylist()


def test_record_becomes_a_row_when_every_field_fits():
    value = b"""{"id": 1, "qty": 2, "price": 9.90, "weight": 1.5, "paid": true, "note": "h\\u00e9",
        "raw": "AAE=", "day": "2026-01-31", "at": "2026-01-31T12:00:00.5+02:00",
        "local": "2026-01-31T12:00:00", "tags": ["a", "b"], "buyer": {"name": "Ann"},
        "scores": {"x": 1, "y": null}}"""
    assert rows(value, schema=ORDERS) == [
        {
            "id": 1,
            "qty": 2,
            "price": Decimal("9.90"),
            "weight": 1.5,
            "paid": True,
            "note": "h\u00e9",
            "raw": b"\x00\x01",
            "day": date(2026, 1, 31),
            "at": datetime(2026, 1, 31, 10, 0, 0, 500_000, tzinfo=UTC),
            "local": datetime(2026, 1, 31, 12),
            "tags": ["a", "b"],
            "buyer": {"name": "Ann"},
            "scores": [("x", 1), ("y", None)],
        }
    ]


@pytest.mark.parametrize("value", [b'{"id": 1}', b'{"id": 1, "qty": null, "buyer": null}'])
def test_field_is_null_when_nullable_and_absent_or_null(value):
    assert rows(value, schema=ORDERS) == [{**ROW, "id": 1}]


@pytest.mark.parametrize(
    ("field", "text", "expected"),
    [
        ("qty", "-2147483648", -(2**31)),
        ("qty", "-0", 0),
        ("weight", "1", 1.0),
        ("weight", "1e-2", 0.01),
        ("weight", "1.7976931348623157e308", 1.7976931348623157e308),
        ("price", '"9.90"', Decimal("9.90")),
        ("price", "1e2", Decimal("100.00")),
        ("price", "99999999.99", Decimal("99999999.99")),
        ("price", "1.500", Decimal("1.50")),
        ("note", '""', ""),
        ("note", '"a\\u0000b"', "a\0b"),
        ("note", '"\\ud83d\\ude00"', "\U0001f600"),
        ("day", '"9999-12-31"', date.max),
        ("at", '"2026-01-01 00:00:00Z"', datetime(2026, 1, 1, tzinfo=UTC)),
        ("at", '"2026-01-01T00:00:00.1234567Z"', datetime(2026, 1, 1, 0, 0, 0, 123457, UTC)),
        ("local", '"0001-01-01T00:00:00"', datetime.min),
        ("tags", "[]", []),
        ("scores", '{"x": 1, "x": 2}', [("x", 2)]),
    ],
)
def test_value_is_kept_exactly_when_it_fits(field, text, expected):
    [row] = rows(b'{"id": 1, "%b": %b}' % (field.encode(), text.encode()), schema=ORDERS)
    assert row == {**ROW, "id": 1, field: expected}


@pytest.mark.parametrize(
    ("field", "text", "reason", "message"),
    [
        ("id", "null", "missing_field", "Expected `int`, got `null` - at `$.id`"),
        ("tags", '["a", null]', "missing_field", "Expected `str`, got `null` - at `$.tags[1]`"),
        ("buyer", "{}", "missing_field", "Object missing required field `name` - at `$.buyer`"),
        ("qty", "2147483648", "out_of_range", "Expected `int` <= 2147483647 - at `$.qty`"),
        ("qty", "1" * 40, "out_of_range", "Expected `int` <= 2147483647 - at `$.qty`"),
        ("scores", '{"k": 128}', "out_of_range", "Expected `int` <= 127 - at `$.scores[...]`"),
        ("weight", "1e999", "out_of_range", "Number out of range - at `$.weight`"),
        ("price", "1.005", "out_of_range", "Number out of range for `decimal(10,2)`"),
        ("price", "1e8", "out_of_range", "Number out of range for `decimal(10,2)`"),
        ("at", '"9999-12-31T23:59:59-01:00"', "out_of_range", "outside the years 1 to 9999"),
        ("qty", '"1"', "wrong_type", "Expected `int | null`, got `str` - at `$.qty`"),
        ("qty", "true", "wrong_type", "Expected `int | null`, got `bool` - at `$.qty`"),
        ("qty", "1.0", "wrong_type", "Expected `int | null`, got `float` - at `$.qty`"),
        ("qty", "1e2", "wrong_type", "Expected `int | null`, got `float` - at `$.qty`"),
        ("note", "1", "wrong_type", "Expected `str | null`, got `int` - at `$.note`"),
        ("paid", "1", "wrong_type", "Expected `bool | null`, got `int` - at `$.paid`"),
        ("weight", '"1"', "wrong_type", "Expected `float | null`, got `str` - at `$.weight`"),
        ("price", '"NaN"', "wrong_type", "Invalid decimal string - at `$.price`"),
        ("price", '" 1"', "wrong_type", "Invalid decimal string - at `$.price`"),
        ("price", "true", "wrong_type", "Expected `decimal(10,2)`, got `bool` - at `$.price`"),
        ("raw", '"A"', "wrong_type", "Invalid base64 encoded string - at `$.raw`"),
        ("day", '"2026-02-30"', "wrong_type", "Invalid RFC3339 encoded date - at `$.day`"),
        ("day", "20000", "wrong_type", "Expected `date | null`, got `int` - at `$.day`"),
        ("at", '"2026-01-01T00:00:00"', "wrong_type", "with a timezone component - at `$.at`"),
        ("local", '"2026-01-01T00:00:00Z"', "wrong_type", "with no timezone component"),
        ("tags", '{"0": "a"}', "wrong_type", "Expected `array | null`, got `object` - at `$.tags`"),
        ("weight", "NaN", "undecodable", "invalid character (byte 20)"),
        ("qty", "01", "undecodable", "invalid number"),
    ],
)
def test_record_is_rejected_whole_when_one_field_does_not_fit(field, text, reason, message):
    start = b"{" if field == "id" else b'{"id": 1, '
    decoded = decode(b'%b"%b": %b}' % (start, field.encode(), text.encode()), schema=ORDERS)
    assert decoded.rows.to_pylist() == [None]
    assert decoded.reasons.to_pylist() == [reason]
    assert message in decoded.messages[0].as_py()


@pytest.mark.parametrize(
    ("value", "reason", "message"),
    [
        (b"", "undecodable", "The value is empty: zero bytes"),
        (b"{bad", "undecodable", "malformed"),
        (b'{"a": 1', "undecodable", "truncated"),
        (b'{"a": 1,}', "undecodable", "trailing comma"),
        (b'{"a": 1}{"a": 2}', "undecodable", "trailing characters"),
        (b'{"a": 1}\n{"a": 2}', "undecodable", "trailing characters"),
        (b'{"a": 1}\x00', "undecodable", "trailing characters"),
        (b'\xef\xbb\xbf{"a": 1}', "undecodable", "byte order mark"),
        (b'{"b": "\xff"}', "undecodable", "not UTF-8"),
        (b'{"ignored": "\xff"}', "undecodable", "not UTF-8"),
        (b'{"b": "\xed\xa0\x80"}', "undecodable", "not UTF-8"),
        (b'{"b": "\\ud800"}', "undecodable", "truncated"),
        (b'{"b": "\\udc00 "}', "undecodable", "surrogate"),
        (b'{"b": "\n"}', "undecodable", "invalid character"),
        pytest.param(DEEP, "wrong_type", "Expected `object`, got `array`", id="deep"),
        pytest.param(b'{"z": ' + DEEP, "undecodable", "nested too deeply", id="deep in a field"),
        (b"null", "wrong_type", "Expected `object`, got `null`"),
        (b'[{"a": 1}]', "wrong_type", "Expected `object`, got `array`"),
        (b'"a"', "wrong_type", "Expected `object`, got `str`"),
        (b"1", "wrong_type", "Expected `object`, got `int`"),
    ],
)
def test_value_is_rejected_when_it_is_not_one_json_object(value, reason, message):
    decoded = decode(b'{"a": 1}', value, b'{"a": 2}')
    assert decoded.rows.to_pylist() == [{"a": 1, "b": None}, None, {"a": 2, "b": None}]
    assert decoded.reasons.to_pylist() == [None, reason, None]
    assert message in decoded.messages[1].as_py()


def test_empty_object_is_rejected_when_a_field_is_required():
    decoded = decode(b"{bad", b"{}", b'{"id": 1}', schema=ORDERS)
    assert decoded.reasons.to_pylist() == ["undecodable", "missing_field", None]


def test_null_value_has_neither_row_nor_reason():
    decoded = decode(None, b'{"a": 1}', None)
    assert decoded.rows.to_pylist() == [None, {"a": 1, "b": None}, None]
    assert decoded.reasons.to_pylist() == [None, None, None]


@pytest.mark.parametrize("values", [[], [None], [b"{bad"]])
def test_batch_decodes_when_it_has_no_row(values):
    assert decode(*values).rows.to_pylist() == [None] * len(values)


def test_rows_keep_their_order_when_some_values_are_rejected():
    values = [b'{"a": %d}' % n if n % 7 else b'{"a": "x"}' for n in range(1000)]
    decoded = decode(*values)
    assert decoded.rows.field("a").to_pylist() == [n if n % 7 else None for n in range(1000)]
    assert decoded.reasons.to_pylist() == [None if n % 7 else "wrong_type" for n in range(1000)]


def test_records_stay_apart_when_they_hold_line_ends():
    values = [b'{\n  "a": 1,\r\n  "b": "x\\ny"\n}\n', b'\n\n{"a":\n2}', b"{\n}"]
    assert rows(*values) == [{"a": 1, "b": "x\ny"}, {"a": 2, "b": None}, {"a": None, "b": None}]


def test_last_one_counts_when_a_name_is_given_twice():
    values = [b'{"a": 1, "b": "x", "a": 2}', b'{"a": 1, "\\u0061": null}', b'{"a": 3}']
    assert [row["a"] for row in rows(*values)] == [2, None, 3]


def test_field_arrives_when_its_name_is_awkward():
    names = ["offset", "topic", "_metadata", "id", "ID", "user", "order", "a b", "a.b", "\u00e9"]
    schema = pa.schema([(name, pa.int32()) for name in names])
    value = b"{" + b", ".join(b'"%b": %d' % (name.encode(), n) for n, name in enumerate(names))
    assert rows(value + b"}", schema=schema) == [{name: n for n, name in enumerate(names)}]


def test_unknown_field_is_ignored_when_the_settings_say_so():
    assert rows(b'{"a": 1, "new": {"a": [1, 1e999]}}') == [{"a": 1, "b": None}]


def test_unknown_field_is_rejected_by_a_short_name_when_the_settings_say_so():
    decoded = decode(b'{"a": 1, "new": 1}', b'{"%b": 1}' % (b"\\n" * 500), unknown="reject")
    assert decoded.reasons.to_pylist() == ["unknown_field", "unknown_field"]
    assert decoded.messages.to_pylist() == [
        "Object contains unknown field `new`",
        f"Object contains unknown field `{'?' * 100}`",
    ]


def test_message_holds_none_of_the_value_when_a_field_is_rejected():
    values = [
        b'{"id": "4111-secret"}',
        b'{"id": 1, "day": "4111-secret"}',
        b'{"id": 1, "price": "4111-secret"}',
        b'{"id": 1, "scores": {"4111-secret": "x"}}',
        b'{"id": 1, "note": "4111-secret',
        b'{"id": 1, "note": "4111-secret\xff"}',
        b'{"id": 41110000000000000000}',
    ]
    decoded = decode(*values, schema=ORDERS)
    assert decoded.reasons.null_count == 0
    assert not [text for text in decoded.messages.to_pylist() if "4111" in text]


def test_large_value_is_decoded_when_it_has_ten_million_bytes():
    text = "x" * 10_000_000
    assert rows(b'{"b": "%b"}' % text.encode(), b'{"a": 1}') == [
        {"a": None, "b": text},
        {"a": 1, "b": None},
    ]


def test_nested_row_is_null_when_its_required_field_comes_with_it():
    item = pa.struct([pa.field("sku", pa.string(), nullable=False), ("at", pa.timestamp("us"))])
    schema = pa.schema([("item", item), ("items", pa.list_(item))])
    assert rows(b'{"item": null, "items": [null, {"sku": "a"}]}', schema=schema) == [
        {"item": None, "items": [None, {"sku": "a", "at": None}]}
    ]


def test_decoder_gives_each_batch_its_own_rows_when_used_again():
    decode_batch = make_decoder(TINY, "ignore")
    batches = [pa.array([b'{"a": %d}' % n], pa.binary()) for n in range(3)]
    assert [decode_batch(batch).rows.field("a").to_pylist() for batch in batches] == [[0], [1], [2]]


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (pa.duration("us"), r"\$\.x: duration\[us\] cannot be read from JSON; use BIGINT"),
        (pa.map_(pa.int32(), pa.string()), r"\$\.x: .* use a MAP with STRING keys"),
        (pa.list_(pa.struct([("y", pa.null())])), r"\$\.x\[\.\.\.\]\.y: null .* use STRING"),
        (pa.struct([("y", pa.int8()), ("y", pa.int8())]), r"\$\.x\.y: .* names this field twice"),
        (pa.struct([('"', pa.int8())]), r"\$\.x: .* field names must not contain"),
    ],
)
def test_decoder_is_refused_when_the_schema_cannot_be_read_from_json(kind, message):
    with pytest.raises(SettingsError, match=message):
        make_decoder(pa.schema([("x", kind)]), "ignore")
