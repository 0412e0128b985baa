"""Judges values one by one with google.protobuf: those that ptars did not read for certain."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from google.protobuf.descriptor import Descriptor
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.unknown_fields import UnknownFieldSet

from .protobuf_plain import plain_message
from .protobuf_types import map_parts
from .reasons import Reason

Rejection = tuple[Reason, str]
UnknownField = tuple[str, int, int]
"""A field that its message lacks: the message's name, the field's number and its wire type."""


class Judge(NamedTuple):
    """What google.protobuf says of one value."""

    damage: Callable[[bytes], Rejection | None]
    """Why it cannot be read at all, if it cannot."""
    judge: Callable[[bytes, bytes | None], bytes | Rejection]
    """The bytes to read it from, without unknown fields, or why it is rejected. The second argument
    is what another reader made of it: if it is right, that is found out soonest."""
    unknown: Callable[[bytes], set[UnknownField]]
    """The fields in it that the schema lacks; the messages by their full names."""


def make_judge(message: Descriptor, *, forbid_unknown: bool) -> Judge:
    """A judge of values of *message*.

    A field of the schema in another wire type counts for Protobuf as an unknown one, and its column
    would be empty in silence, so the record is rejected (not seen in the entries of a map).
    """
    plain, sources = plain_message(message, json_as_bytes=False)
    parse = GetMessageClass(plain).FromString

    def damage(value: bytes) -> Rejection | None:
        try:
            parse(value)
        except DecodeError as error:
            return Reason.UNDECODABLE, _damage(error, message)
        return None

    def judge(value: bytes, written: bytes | None) -> bytes | Rejection:
        try:
            record = parse(value)
        except DecodeError as error:
            return Reason.UNDECODABLE, _damage(error, message)
        whole: bytes = record.SerializeToString()
        if whole == written:
            return whole
        record.DiscardUnknownFields()
        known: bytes = record.SerializeToString()
        if len(known) == len(whole):
            return known
        return unknown_verdict(value, len(whole) - len(known)) or known

    def unknown_verdict(value: bytes, size: int) -> Rejection | None:
        unknown = _unknown_fields(parse(value), size)
        for name, number, _ in unknown:
            source = sources.get(name)
            if source is not None and number in source.fields_by_number:
                field = source.fields_by_number[number].full_name
                return Reason.WRONG_TYPE, f"`{field}` has another wire type than in the schema"
        if forbid_unknown:
            name, number, _ = unknown[0]
            owner = sources[name].full_name if name in sources else name
            return Reason.UNKNOWN_FIELD, f"`{owner}` has no field {number} in the schema"
        return None

    def unknown(value: bytes) -> set[UnknownField]:
        try:
            found = list(_all_unknown_fields(parse(value)))
        except DecodeError:
            return set()
        return {
            (sources[name].full_name, number, wire_type)
            for name, number, wire_type in found
            if name in sources and number not in sources[name].fields_by_number
        }

    return Judge(damage, judge, unknown)


def _damage(error: Exception, message: Descriptor) -> str:
    if "UTF-8" in str(error):
        return "A string in the value is not UTF-8"
    return f"The value is cut off, or not a {message.full_name}"


def _unknown_fields(record: Any, size: int) -> list[UnknownField]:
    """The unknown fields of *record*, of ``size`` bytes in all; the messages by plain names."""
    own: Any = UnknownFieldSet(record)  # its type stub does not say that it can be iterated
    # To look into all messages within takes five times as long.
    if sum(map(_size, own)) == size:
        return [(record.DESCRIPTOR.name, f.field_number, f.wire_type) for f in own]
    return list(_all_unknown_fields(record))


def _all_unknown_fields(record: Any) -> Iterator[UnknownField]:
    own: Any = UnknownFieldSet(record)
    for field in own:
        yield record.DESCRIPTOR.name, field.field_number, field.wire_type
    for field, value in record.ListFields():
        if field.message_type is None:
            continue
        if not field.is_repeated:
            yield from _all_unknown_fields(value)
            continue
        parts = map_parts(field)
        if parts is None or parts[1].message_type is not None:
            for element in value if parts is None else value.values():
                yield from _all_unknown_fields(element)


def _size(field: Any) -> int:
    """The bytes of an unknown field, written as short as can be."""
    tag = _varint_size(field.field_number << 3)
    if field.wire_type == 0:
        return tag + _varint_size(field.data)
    if field.wire_type == 2:
        return tag + _varint_size(len(field.data)) + len(field.data)
    if field.wire_type == 3:
        return 2 * tag + sum(map(_size, field.data))
    return tag + (8 if field.wire_type == 1 else 4)


def _varint_size(number: int) -> int:
    return (max(number.bit_length(), 1) + 6) // 7
