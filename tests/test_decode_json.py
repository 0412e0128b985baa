"""The JSON decoder against Python's own ``json`` and an independent reading of the rules.

Records are written at random (spelling, spacing, order, escapes, names given twice), some with one
fault put in; what must come out is worked out from the text, not from what was put in.
"""

import base64
import importlib
import json
import struct
import sys
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal
from fractions import Fraction
from random import Random
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rendering import render

EPOCH = datetime(1970, 1, 1)


@pytest.fixture(scope="module")
def decoder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    """The decoder's module, of a generated repository."""
    tree = render(tmp_path_factory.mktemp("decode"), project_name="json-under-test")
    sys.path.insert(0, str(tree / "src"))
    try:
        yield importlib.import_module("json_under_test.decode")
    finally:
        sys.path.remove(str(tree / "src"))
        for name in [name for name in sys.modules if name.startswith("json_under_test")]:
            del sys.modules[name]


# --- What must come out, from the text alone ------------------------------------------------------


class Rejected(Exception):
    """The reason the record must be rejected with."""


class Written(str):
    """A number with a fraction or an exponent, as written."""


def expected(text: bytes, schema: pa.Schema) -> dict[str, Any] | str:
    try:
        # strict UTF-8; no NaN or Infinity; a name given twice: the last one counts
        parsed = json.loads(text.decode(), parse_float=Written, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return "undecodable"
    try:
        return _object(parsed, schema)
    except Rejected as rejected:
        return str(rejected)


def _refuse(constant: str) -> None:
    raise ValueError(constant)


def _object(value: Any, fields: Any) -> dict[str, Any]:
    given = _a(dict, value)
    return {field.name: _field(given.get(field.name), field) for field in fields}


def _field(value: Any, field: pa.Field) -> Any:
    if value is None:
        if not field.nullable:
            raise Rejected("missing_field")
        return None
    return _value(value, field.type)


def _value(value: Any, kind: pa.DataType) -> Any:
    types = pa.types
    if types.is_struct(kind):
        return _object(value, kind)
    if types.is_list(kind):
        return [_field(item, kind.value_field) for item in _a(list, value)]
    if types.is_map(kind):
        return [(key, _field(item, kind.item_field)) for key, item in _a(dict, value).items()]
    if types.is_integer(kind):
        limit = 2 ** (kind.bit_width - 1)
        if not -limit <= _a(int, value) < limit:
            raise Rejected("out_of_range")
        return value
    if types.is_floating(kind):
        return _float(value, kind)
    if types.is_decimal(kind):
        return _decimal(value, kind)
    if types.is_boolean(kind):
        return _a(bool, value)
    text = _a(str, value)
    if types.is_string(kind):
        return text
    try:
        if types.is_binary(kind):
            return base64.b64decode(text, validate=True)
        if types.is_date(kind):
            return date.fromisoformat(text)
        return _timestamp(text, kind)
    except ValueError:
        raise Rejected("wrong_type") from None


def _a(kind: type, value: Any) -> Any:
    if type(value) is Written and abs(float(value)) == float("inf"):
        raise Rejected("out_of_range")  # whatever the column's type
    if type(value) is not kind:
        raise Rejected("wrong_type")
    return value


def _float(value: Any, kind: pa.DataType) -> float:
    if type(value) not in (int, Written):
        raise Rejected("wrong_type")
    try:
        number = float(value)
        if kind.bit_width == 32:
            number = struct.unpack("f", struct.pack("f", number))[0]
    except OverflowError:
        number = float("inf")
    if number in (float("inf"), float("-inf")):
        raise Rejected("out_of_range")
    return number


def _decimal(value: Any, kind: pa.DataType) -> Decimal:
    if type(value) not in (int, Written, str):
        raise Rejected("wrong_type")
    if type(value) is str:
        try:
            value = json.loads(value, parse_float=Written, parse_constant=_refuse)
        except ValueError:
            raise Rejected("wrong_type") from None
    units = Fraction(value) * 10**kind.scale
    if units.denominator != 1 or abs(units) >= 10**kind.precision:
        raise Rejected("out_of_range")
    return Decimal(int(units)).scaleb(-kind.scale, Context(prec=kind.precision))


def _timestamp(text: str, kind: pa.DataType) -> datetime:
    whole, dot, rest = text.partition(".")
    digits = rest.rstrip("Zz") if rest[-1:] in "Zz" else rest.split("+")[0].split("-")[0]
    zone = rest[len(digits) :] if dot else ""
    moment = datetime.fromisoformat(whole.upper() + zone.upper())
    if len(text) < len("2026-01-01T00:00:00") or (moment.tzinfo is None) != (kind.tz is None):
        raise ValueError(text)
    try:
        if digits:
            moment += timedelta(microseconds=int(Fraction(f"0.{digits}") * 10**6 + Fraction(1, 2)))
        return moment.astimezone(UTC) if moment.tzinfo else moment
    except OverflowError:
        raise Rejected("out_of_range") from None


# --- Random schemas and the records for them ------------------------------------------------------

LEAVES = [
    *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.bool_()),
    *(pa.string(), pa.binary(), pa.decimal128(9, 2), pa.decimal128(38, 10), pa.date32()),
    *(pa.timestamp("us", "UTC"), pa.timestamp("us")),
]
QUICK = [pa.int64(), pa.float64(), pa.bool_(), pa.string(), pa.timestamp("us", "UTC")]
NAMES = ["id", "ID", "offset", "_metadata", "a b", "a.b", "\u00e9", "class", "x`y", "$"]
LETTERS = 'ab \t\n"\\/\u00e9\u20ac\U0001f600\0\x7f\u2028{}[]:,'
WRONG = [
    *("null", "true", "1", "1.0", "1.001", "128", "9" * 20, "-" + "9" * 20, "9" * 40, "1e400"),
    *('"x"', '"1"', '"1.5"', '"2026-01-01"', '"0001-01-01T00:00:00+14:00"', "[1]", '{"x": 1}'),
]


def some_type(random: Random, leaves: list[pa.DataType], depth: int = 2) -> pa.DataType:
    shape = random.choice(["struct", "list", "map", *["leaf"] * 5]) if depth else "leaf"
    if shape == "leaf":
        return random.choice(leaves)
    if shape == "struct":
        return pa.struct(some_fields(random, leaves, depth - 1))
    item = pa.field("element", some_type(random, leaves, depth - 1), random.random() < 0.6)
    return pa.list_(item) if shape == "list" else pa.map_(pa.string(), item.with_name("value"))


def some_fields(random: Random, leaves: list[pa.DataType], depth: int) -> list[pa.Field]:
    names = random.sample(NAMES, random.randint(1, 5))
    return [pa.field(n, some_type(random, leaves, depth), random.random() < 0.7) for n in names]


class Writer:
    """Writes records as text, each in a spelling of its own, at most one fault in each."""

    def __init__(self, random: Random) -> None:
        self.random = random

    def record(self, schema: pa.Schema) -> bytes:
        kind = self.random.choice(["whole"] * 14 + ["faulty"] * 4 + ["cut", "trailing"])
        self.fault = kind == "faulty"
        text = self.object(schema).encode()
        if kind == "cut":
            return text.rstrip()[: self.random.randrange(len(text.rstrip()))]
        if kind == "trailing":
            return text + self.random.choice([b"x", b"{}", b",", b"\x00", b"\xff", b"\n1"])
        return text

    def space(self) -> str:
        return self.random.choice(["", "", "", " ", "\n", "\r\n", "\t "])

    def object(self, fields: Any) -> str:
        members = []
        for field in fields:
            if field.nullable and self.random.random() < 0.2:
                continue
            if self.fault and self.random.random() < 0.1:
                self.fault = False
                continue
            if not self.fault and self.random.random() < 0.03:  # twice: the last one counts
                members.append((field.name, self.field(field)))
            members.append((field.name, self.field(field)))
        if self.random.random() < 0.2:
            members.insert(0, ("unknown", self.random.choice(["1e999", '{"id": [null, "x"]}'])))
        if self.random.random() < 0.3 and len({name for name, _ in members}) == len(members):
            self.random.shuffle(members)
        s = self.space
        inner = ",".join(f"{s()}{self.string(k)}{s()}:{s()}{v}{s()}" for k, v in members)
        return f"{s()}{{{inner or s()}}}{s()}"

    def field(self, field: pa.Field) -> str:
        if self.fault and self.random.random() < 0.3:
            self.fault = False
            return self.random.choice(WRONG)
        if field.nullable and self.random.random() < 0.1:
            return "null"
        return self.value(field.type)

    def value(self, kind: pa.DataType) -> str:
        types, random, s = pa.types, self.random, self.space
        if types.is_struct(kind):
            return self.object(kind)
        if types.is_list(kind):
            items = [self.field(kind.value_field) for _ in range(random.randrange(4))]
            return "[" + ",".join(f"{s()}{item}{s()}" for item in items) + "]"
        if types.is_map(kind):
            keys = {self.text() for _ in range(random.randrange(4))}
            items = [f"{self.string(key)}:{self.field(kind.item_field)}" for key in sorted(keys)]
            return "{" + ",".join(items) + "}"
        if types.is_integer(kind):
            limit = 2 ** (kind.bit_width - 1)
            return str(random.choice([-limit, limit - 1, 0, random.randrange(-limit, limit)]))
        if types.is_floating(kind):
            number = random.uniform(-1, 1) * 10 ** random.randint(-30, 30)
            texts = [repr(number), f"{number:.20e}", f"{number:.3E}", "0", "-7", "1e2", "12.50"]
            return random.choice([*texts, "1e-400", "0.1", "3.4028235e38"])
        if types.is_decimal(kind):
            units = random.randrange(-(10**kind.precision) + 1, 10**kind.precision)
            exact = f"{Decimal(units).scaleb(-kind.scale, Context(prec=40)):f}"
            text = random.choice([exact, exact, "1.50", "1e2", "-0.0", "10"])
            return random.choice([text, f'"{text}"'])
        if types.is_boolean(kind):
            return random.choice(["true", "false"])
        return self.string(self.plain(kind))

    def plain(self, kind: pa.DataType) -> str:
        random = self.random
        if pa.types.is_string(kind):
            return self.text()
        if pa.types.is_binary(kind):
            return base64.b64encode(random.randbytes(random.randrange(6))).decode()
        if pa.types.is_date(kind):
            return date.fromordinal(random.randint(1, date.max.toordinal())).isoformat()
        moment = datetime.fromordinal(random.choice([2, 3652058, random.randint(2, 3652058)]))
        moment += timedelta(seconds=random.randrange(86_399))
        fraction = random.choice(["", ".5", ".123456", ".000001", ".1234567", ".999999999"])
        zone = random.choice(["Z", "z", "+00:00", "-11:30", "+14:00", "+0530"]) if kind.tz else ""
        return moment.isoformat(random.choice(["T", " ", "t"])) + fraction + zone

    def text(self) -> str:
        return "".join(self.random.choices(LETTERS, k=self.random.randrange(8)))

    def string(self, text: str) -> str:
        if self.random.random() < 0.1:
            units = text.encode("utf-16-be").hex()
            return '"' + "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4)) + '"'
        return json.dumps(text, ensure_ascii=self.random.random() < 0.5)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32), leaves=st.sampled_from([LEAVES, QUICK]))
def test_decoder_agrees_with_python_when_records_are_random(decoder, seed, leaves):
    random = Random(seed)
    schema = pa.schema(some_fields(random, leaves, 2))
    writer = Writer(random)
    texts = [writer.record(schema) for _ in range(100)]

    decoded = decoder.decode_values(pa.array(texts, pa.binary()), schema, "ignore")

    decoded.rows.validate(full=True)
    assert decoded.rows.type == pa.struct(list(schema))
    outcomes = zip(texts, decoded.rows.to_pylist(), decoded.reasons.to_pylist(), strict=True)
    for text, row, reason in outcomes:
        assert (row if reason is None else reason) == expected(text, schema), text


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_outcome_is_the_same_when_a_record_is_decoded_alone(decoder, seed):
    random = Random(seed)
    schema = pa.schema(some_fields(random, QUICK, 2))
    writer = Writer(random)
    texts = [*(writer.record(schema) for _ in range(40)), None]
    decode = decoder.make_decoder(schema, "reject")

    together = decode(pa.array(texts, pa.binary()))

    alone = [decode(pa.array([text], pa.binary())) for text in texts]
    for column in range(3):
        assert together[column].equals(pa.concat_arrays([one[column] for one in alone]))


@settings(max_examples=200, deadline=None)
@given(
    values=st.lists(
        st.binary(max_size=20)
        | st.text('{}[]":,0123456789.eE+-ab \\untrfls\n', max_size=20).map(str.encode),
        max_size=20,
    )
)
def test_value_has_a_row_or_a_reason_when_it_is_any_bytes(decoder, values):
    schema = pa.schema([("a", pa.int32()), ("b", pa.string())])
    decoded = decoder.decode_values(pa.array(values, pa.binary()), schema, "ignore")
    assert decoded.rows.is_null().equals(decoded.reasons.is_valid())
    for value, reason in zip(values, decoded.reasons.to_pylist(), strict=True):
        if reason is None:
            assert isinstance(json.loads(value), dict)
