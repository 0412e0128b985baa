"""How a version of a topic's .proto in the registry differs from ours, field by field.

Fields are those of one number. Compared are their types, whether they are repeated and what is
``required``, in the record's message and in messages within it that both files define; an imported
message is taken to fit.
"""

from collections.abc import Iterator
from typing import NamedTuple

from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorSet
from pyspark.sql.types import StructType

from .protobuf_files import all_messages
from .protobuf_versions import file_of
from .registry import Registered
from .schema import compiled_schema
from .settings import Topic

# What a reader of the type takes of a writer's, beside the type itself: all of its values, as they
# are. https://protobuf.dev/programming-guides/proto3/#updating
_TAKES = {
    "int64": {"int32", "uint32", "bool", "enum"},
    "int32": {"bool", "enum"},
    "uint64": {"uint32", "bool"},
    "uint32": {"bool"},
    "sint64": {"sint32"},
    "bytes": {"string"},
}


class _Pair(NamedTuple):
    """A message of ours, and the version's in the same place of a record."""

    path: str
    ours: DescriptorProto
    theirs: DescriptorProto


def unread_fields(fields: StructType, registered: Registered) -> list[str]:
    """The fields that the version has and ours has not, ``address.zip``; those within are not."""
    return [
        _dotted(pair.path, field.name)
        for pair in _pairs(fields, registered)
        for number, field in _by_number(pair.theirs).items()
        if number not in _by_number(pair.ours)
    ]


def cannot_read(topic: Topic, fields: StructType, registered: Registered) -> list[str]:
    """Why records of the version may be rejected here, or read wrongly; empty if they are not."""
    found = _lacks_message(fields, registered)
    for pair in _pairs(fields, registered):
        found += _faults(pair.path, reader=pair.ours, writer=pair.theirs, where=("here", "there"))
    if topic.settings.decode.unknown_fields == "reject":
        unread = unread_fields(fields, registered)
        found += [f"{name} is unknown here, and rejected by unknown_fields" for name in unread]
    return found


def cannot_be_read(fields: StructType, registered: Registered) -> list[str]:
    """Why records of ours cannot be read with the version; empty if they can."""
    found = _lacks_message(fields, registered)
    for pair in _pairs(fields, registered):
        found += _faults(pair.path, reader=pair.theirs, writer=pair.ours, where=("there", "here"))
    return found


def _lacks_message(fields: StructType, registered: Registered) -> list[str]:
    name = compiled_schema(fields).message
    file = file_of(registered)
    if file is None:
        return ["it does not compile"]
    return [] if name in all_messages(file) else [f"it has no message {name}"]


def _faults(
    path: str, *, reader: DescriptorProto, writer: DescriptorProto, where: tuple[str, str]
) -> list[str]:
    found = []
    written = _by_number(writer)
    for number, field in _by_number(reader).items():
        name, other = _dotted(path, field.name), written.get(number)
        is_required = field.label == FieldDescriptorProto.LABEL_REQUIRED
        if is_required and (other is None or other.label != field.label):
            found.append(f"{name} is required {where[0]}, and may be missing {where[1]}")
        if other is None:
            continue
        mine, its = _kind(field), _kind(other)
        if mine != its and its not in _TAKES.get(mine, set()):
            found.append(f"{name} is {mine} {where[0]}, and {its} {where[1]}")
        if _is_repeated(other) and not _is_repeated(field):
            found.append(f"{name} is repeated {where[1]}, and not {where[0]}")
    return found


def _pairs(fields: StructType, registered: Registered) -> Iterator[_Pair]:
    """The record's message, and each message within it that both files define, once."""
    compiled, file = compiled_schema(fields), file_of(registered)
    ours = all_messages(FileDescriptorSet.FromString(compiled.descriptor_set).file[-1])
    theirs = all_messages(file) if file else {}
    waiting = [("", compiled.message, compiled.message)]
    seen = set()
    while waiting:
        path, my_name, its_name = waiting.pop(0)
        if my_name not in ours or its_name not in theirs or (my_name, its_name) in seen:
            continue
        seen.add((my_name, its_name))
        yield _Pair(path, ours[my_name], theirs[its_name])
        others = _by_number(theirs[its_name])
        for number, field in _by_number(ours[my_name]).items():
            if number in others:
                within = _dotted(path, field.name)
                waiting.append((within, _type_name(field), _type_name(others[number])))


def _type_name(field: FieldDescriptorProto) -> str:
    return str(field.type_name).lstrip(".")


def _by_number(message: DescriptorProto) -> dict[int, FieldDescriptorProto]:
    return {field.number: field for field in message.field}


def _kind(field: FieldDescriptorProto) -> str:
    return FieldDescriptorProto.Type.Name(field.type).removeprefix("TYPE_").lower()


def _is_repeated(field: FieldDescriptorProto) -> bool:
    return field.label == FieldDescriptorProto.LABEL_REPEATED


def _dotted(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
