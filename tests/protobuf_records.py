"""Random records of any message, and what google.protobuf makes of a value: the tests' judge.

It works on the messages as they are, and shares nothing with the decoder but the types' names.
"""

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from google.protobuf import json_format
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.unknown_fields import UnknownFieldSet

F = FieldDescriptor
JSON = {"Struct", "Value", "ListValue"}
BITS = {
    F.TYPE_INT32: (-31, 31), F.TYPE_SINT32: (-31, 31), F.TYPE_SFIXED32: (-31, 31),
    F.TYPE_INT64: (-63, 63), F.TYPE_SINT64: (-63, 63), F.TYPE_SFIXED64: (-63, 63),
    F.TYPE_UINT32: (0, 32), F.TYPE_FIXED32: (0, 32),
    F.TYPE_UINT64: (0, 64), F.TYPE_FIXED64: (0, 64),
}  # fmt: skip
FLOATS = [0.0, -0.0, 1.5, -1e-300, 3.4e38, float("inf"), float("nan"), 0.1]
TEXTS = ["", "a", "h\u00e9", "\U0001f600", "a\0b", "x" * 200, "\u2028", "\ufeff"]


def random_record(rng: random.Random, kind: Descriptor) -> Any:
    """A record of *kind* with some of its fields set, each often to an extreme."""
    record = GetMessageClass(kind)()
    fill(rng, record)
    return record


def fill(rng: random.Random, record: Any, depth: int = 0) -> None:
    """Sets some fields of *record*."""
    kind = record.DESCRIPTOR
    if kind.full_name.startswith("google.protobuf."):
        if kind.name in JSON:
            json_format.Parse(rng.choice(_TEXTS[kind.name]), record)
            return
        if kind.name in ("Timestamp", "Duration"):
            _fill_time(rng, record)
            return
    for field in kind.fields:
        if not field.is_required and rng.random() < 0.5 + depth / 10:
            continue
        target = getattr(record, field.name)
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            key, value = field.message_type.fields
            for _ in range(rng.randrange(4)):
                if value.message_type is None:
                    target[_scalar(rng, key)] = _scalar(rng, value)
                else:
                    fill(rng, target[_scalar(rng, key)], depth + 1)
        elif field.is_repeated:
            for _ in range(rng.randrange(4)):
                if field.message_type is None:
                    target.append(_scalar(rng, field))
                else:
                    fill(rng, target.add(), depth + 1)
        elif field.message_type is not None:
            target.SetInParent()
            fill(rng, target, depth + 1)
        else:
            setattr(record, field.name, _scalar(rng, field))


_TEXTS = {
    "Struct": ["{}", '{"a": 1, "b": [true, null, "x"], "c": {"d": 1.5}}', '{"\u00e9": "\u2028"}'],
    "Value": ["null", "1", '"x"', "[1, [2]]", '{"z": 0, "a": {}}', "true"],
    "ListValue": ["[]", "[1, null]", '[{"a": []}]'],
}


def _fill_time(rng: random.Random, record: Any) -> None:
    edges = [0, -1, 1, 1_700_000_000, -62_135_596_800, 253_402_300_799]
    record.seconds = rng.choice(edges)
    record.nanos = rng.choice([0, 1, 999, 1000, 123_456_789, 999_999_999])
    if rng.random() < 0.02:
        record.seconds = rng.choice([-62_135_596_801, 253_402_300_800, 2**63 - 1, -(2**63)])
    if record.DESCRIPTOR.name == "Duration" and record.seconds < 0:
        record.nanos = -record.nanos


def _scalar(rng: random.Random, field: FieldDescriptor) -> Any:
    if field.type in BITS:
        low, high = BITS[field.type]
        lowest, highest = -(2**-low) if low else 0, 2**high - 1
        return rng.choice([0, 1, lowest, highest, rng.randint(lowest, highest), rng.randrange(300)])
    if field.enum_type is not None:
        numbers = [value.number for value in field.enum_type.values]
        return rng.choice(numbers if field.enum_type.is_closed else [*numbers, 77, -5])
    if field.type in (F.TYPE_FLOAT, F.TYPE_DOUBLE):
        return rng.choice(FLOATS)
    if field.type == F.TYPE_BOOL:
        return rng.random() < 0.5
    text = rng.choice(TEXTS)
    return text if field.type == F.TYPE_STRING else text.encode() + b"\xff"


def damaged(rng: random.Random, value: bytes, other: bytes) -> bytes:
    """*value* as a fault, or an unusual writer, would leave it."""
    at = rng.randrange(len(value) + 1)
    return rng.choice(
        [
            value[:at],
            value + value[at:],
            value + other,
            value[:at] + bytes([rng.randrange(256)]) + value[at + 1 :],
            value[:at] + rng.randbytes(rng.randrange(1, 4)) + value[at:],
            value[:at] + b"\xff" * 9 + b"\x01" + value[at:],
            value + b"\0",
            b"\0\0\0\0\1" + value,
            value + b"\xfa\xff\x03\x03abc",  # an unknown field
            value + b"\xfb\x7f\x05abcd\xfc\x7f",  # an unknown group, and in it a field 0
            rng.randbytes(rng.randrange(20)),
        ]
    )


def verdict(kind: Descriptor, value: bytes) -> tuple[dict[str, Any] | None, set[str]]:
    """The row of *value* and no reason; or all reasons for which it may be rejected."""
    try:
        record = GetMessageClass(kind).FromString(value)
    except DecodeError:
        return None, {"undecodable"}
    try:
        reasons = set(_wrong_types(record))
        row = _row(record, reasons)
    except UnicodeDecodeError:  # proto2 lets a map's key pass as well
        return None, {"undecodable"}
    return (None, reasons) if reasons else (row, reasons)


def _messages_in(record: Any) -> Iterator[Any]:
    for field, value in record.ListFields():
        if field.message_type is None:
            continue
        if field.message_type.GetOptions().map_entry:
            if field.message_type.fields_by_name["value"].message_type is not None:
                yield from value.values()
        elif field.is_repeated:
            yield from value
        else:
            yield value


def _wrong_types(record: Any) -> Iterator[str]:
    if record.DESCRIPTOR.name in JSON:
        return
    unknown_fields: Any = UnknownFieldSet(record)  # its type stub lacks that it can be iterated
    for unknown in unknown_fields:
        if unknown.field_number in record.DESCRIPTOR.fields_by_number:
            field = record.DESCRIPTOR.fields_by_number[unknown.field_number]
            yield "closed_enum" if field.type == F.TYPE_ENUM else "wrong_type"
        if unknown.wire_type == 3 and _has_field_0(unknown.data):
            yield "undecodable"  # google.protobuf lets it pass, and ptars reads none of it
    for inner in _messages_in(record):
        yield from _wrong_types(inner)


def _has_field_0(group: Any) -> bool:
    return any(f.field_number == 0 or (f.wire_type == 3 and _has_field_0(f.data)) for f in group)


def _row(record: Any, reasons: set[str]) -> dict[str, Any]:
    row: dict[str, Any] = {}
    for field in record.DESCRIPTOR.fields:
        value = getattr(record, field.name)
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            key, item = field.message_type.fields
            made: Any = [(_value(key, k, reasons), _value(item, value[k], reasons)) for k in value]
            row[field.name] = sorted(made, key=repr)
        elif field.is_repeated:
            row[field.name] = [_value(field, element, reasons) for element in value]
        elif field.has_presence and not record.HasField(field.name):
            row[field.name] = None
            if field.is_required:
                reasons.add("missing_field")
        else:
            row[field.name] = _value(field, value, reasons)
    return row


def _value(field: FieldDescriptor, value: Any, reasons: set[str]) -> Any:
    if field.enum_type is not None:
        names = [known.name for known in field.enum_type.values if known.number == value]
        return names[0] if names else str(value)
    if field.message_type is None:
        if field.type == F.TYPE_STRING and isinstance(value, bytes):
            reasons.add("undecodable")  # proto2 lets it pass, and no text can hold it
        return value
    name = field.message_type.full_name.removeprefix("google.protobuf.")
    if name == "Timestamp":
        if not -62_135_596_800 <= value.seconds <= 253_402_300_799 or not 0 <= value.nanos < 10**9:
            reasons.add("out_of_range")
            return None
        since = timedelta(seconds=value.seconds, microseconds=value.nanos // 1000)
        return datetime(1970, 1, 1, tzinfo=UTC) + since
    if name == "Duration":
        try:
            return _micros(value)
        except ValueError:
            reasons.add("out_of_range")
            return None
    if name in JSON:
        try:
            return json_format.MessageToJson(value, indent=None, sort_keys=True, ensure_ascii=False)
        except ValueError:
            reasons.add("out_of_range")
            return None
    if name.endswith("Value"):
        return value.value
    return _row(value, reasons) if field.message_type.fields else True


def _micros(value: Any) -> int:
    value.ToJsonString()  # checks the range and the signs
    return int(value.ToMicroseconds())
