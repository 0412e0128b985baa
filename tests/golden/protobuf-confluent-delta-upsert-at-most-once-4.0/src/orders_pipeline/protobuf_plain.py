"""A message without all that readers treat differently: the same bytes, plain names and types.

ptars reads Timestamp, Duration and the wrappers by rules of its own (it wraps around, and panics on
a date out of range). So it gets, and google.protobuf with it, a message in which nothing has a
well-known name, each enum is an int32, and proto2, proto3 and editions look alike. Field ``f<n>``
is the n-th of its message, counted by number; fields of writers that the message lacks are
``u<number>``.
"""

from collections.abc import Mapping
from typing import Any, cast

from google.protobuf import struct_pb2
from google.protobuf.descriptor import Descriptor, FieldDescriptor, OneofDescriptor
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
)
from google.protobuf.descriptor_pool import DescriptorPool

from .protobuf_types import JSON, map_parts

Unknown = Mapping[str, Mapping[int, int]]
"""For a message, by its full name, the wire types of fields that it lacks, by their numbers."""

_OF_WIRE_TYPE = {
    0: FieldDescriptorProto.TYPE_UINT64,
    1: FieldDescriptorProto.TYPE_FIXED64,
    2: FieldDescriptorProto.TYPE_BYTES,
    5: FieldDescriptorProto.TYPE_FIXED32,
}
_OPTIONAL = FieldDescriptorProto.LABEL_OPTIONAL
_REPEATED = FieldDescriptorProto.LABEL_REPEATED


def by_number(message: Descriptor) -> list[FieldDescriptor]:
    """The fields of *message* in the order in which they are written."""
    return sorted(message.fields, key=lambda field: field.number)


def choices(message: Descriptor) -> list[OneofDescriptor]:
    """The oneofs of *message* with a choice; the one member of any other is just optional."""
    return [oneof for oneof in message.oneofs if len(oneof.fields) > 1]


def plain_message(
    message: Descriptor, *, json_as_bytes: bool, unknown: Unknown | None = None
) -> tuple[Descriptor, dict[str, Descriptor]]:
    """What stands for *message*; and by its name what each such message stands for.

    Struct, Value and ListValue contain themselves, which ptars cannot read: ``json_as_bytes``. The
    fields of ``unknown`` are added, each of a type that is written alike.
    """
    file = FileDescriptorProto(name="record.proto", syntax="proto3")
    if not json_as_bytes:
        file.dependency.append(struct_pb2.DESCRIPTOR.name)
    sources: dict[str, Descriptor] = {}

    def reference(kind: Descriptor | None) -> str:
        if kind is None or (kind.full_name in JSON and json_as_bytes):
            return ""
        if kind.full_name in JSON:
            return f".{kind.full_name}"
        for name, source in sources.items():
            if source is kind:
                return f".{name}"
        return f".{add(kind)}"

    def add(source: Descriptor) -> str:
        name = f"M{len(sources)}"
        sources[name] = source
        plain = DescriptorProto(name=name)
        for number, _ in enumerate(choices(source)):
            plain.oneof_decl.add(name=f"o{number}")
        for number, field in enumerate(by_number(source)):
            made = plain.field.add(name=f"f{number}", number=field.number)
            if parts := map_parts(field):
                entry = plain.nested_type.add(name=f"F{number}Entry")
                entry.options.map_entry = True
                for part in parts:
                    inner = entry.field.add(name=part.name, number=part.number, label=_OPTIONAL)
                    _set_type(inner, part, reference(part.message_type))
                made.label, made.type = _REPEATED, FieldDescriptorProto.TYPE_MESSAGE
                made.type_name = f".{name}.{entry.name}"
                continue
            made.label = _REPEATED if field.is_repeated else _OPTIONAL
            _set_type(made, field, reference(field.message_type))
            if field.is_repeated:
                made.options.packed = field.is_packed
            elif field.containing_oneof in choices(source):
                made.oneof_index = choices(source).index(field.containing_oneof)
            elif field.has_presence:
                _set_optional(plain, made)
        for number, wire_type in (unknown or {}).get(source.full_name, {}).items():
            made = plain.field.add(name=f"u{number}", number=number, type=_OF_WIRE_TYPE[wire_type])
            if wire_type == 2:
                made.label = _REPEATED
            else:  # ptars writes repeated numbers packed, whatever the options say
                made.label = _OPTIONAL
                _set_optional(plain, made)
        plain.field.sort(key=lambda field: field.number)  # as it is written
        file.message_type.append(plain)
        return name

    root = add(message)
    pool = DescriptorPool()
    if not json_as_bytes:
        pool.AddSerializedFile(struct_pb2.DESCRIPTOR.serialized_pb)
    pool.Add(file)
    return pool.FindMessageTypeByName(root), sources


def _set_optional(plain: DescriptorProto, made: FieldDescriptorProto) -> None:
    made.proto3_optional = True
    made.oneof_index = len(plain.oneof_decl)
    plain.oneof_decl.add(name=f"_{made.name}")


def _set_type(made: FieldDescriptorProto, field: FieldDescriptor, type_name: str) -> None:
    if type_name:
        made.type, made.type_name = FieldDescriptorProto.TYPE_MESSAGE, type_name
    elif field.message_type is not None:
        made.type = FieldDescriptorProto.TYPE_BYTES
    elif field.enum_type is not None:
        made.type = FieldDescriptorProto.TYPE_INT32
    else:
        made.type = cast(Any, field.type)  # the same numbers, of another type
