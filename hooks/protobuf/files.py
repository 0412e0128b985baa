"""The messages in a compiled schema: a serialized ``FileDescriptorSet``, the topic's file last."""

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from google.protobuf import (
    any_pb2,
    duration_pb2,
    empty_pb2,
    field_mask_pb2,
    struct_pb2,
    timestamp_pb2,
    wrappers_pb2,
)
from google.protobuf.descriptor import Descriptor
from google.protobuf.descriptor_database import DescriptorDatabase
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
)
from google.protobuf.descriptor_pool import DescriptorPool

from .errors import SettingsError

_OWN_FILES = (
    any_pb2,
    duration_pb2,
    empty_pb2,
    field_mask_pb2,
    struct_pb2,
    timestamp_pb2,
    wrappers_pb2,
)


BUNDLED = {
    f"google.protobuf.{message}": module.DESCRIPTOR.name
    for module in _OWN_FILES
    for message in module.DESCRIPTOR.message_types_by_name
}
"""The messages of Protobuf's own, by full name: the file that defines each."""


class Compiled(NamedTuple):
    """A message, and what defines it."""

    descriptor_set: bytes
    """A serialized ``FileDescriptorSet``: the message's file last, what it imports before it."""
    message: str
    """Its full name."""


def record_message(descriptor_set: bytes, named: str | None = None) -> str:
    """The full name of the message that the records are: of the last file, the first or ``named``.

    Raises:
        SettingsError: the file has no message, or none called ``named``.
    """
    file = FileDescriptorSet.FromString(descriptor_set).file[-1]
    names = list(message_names(file))
    if not names:
        raise SettingsError(f"{file.name} has no message: define the record's, before any other")
    for name in names:
        if named in (None, name) or (file.package and name == f"{file.package}.{named}"):
            return name
    raise SettingsError(f"{file.name} has no message {named!r}. It has: {', '.join(names)}")


def find_message(descriptor_set: bytes, message: str) -> Descriptor:
    """The *message* (full name) in a serialized ``FileDescriptorSet``, its files in any order.

    Protobuf's own files (``google/protobuf/*.proto``) need not be in it.
    """
    files = FileDescriptorSet.FromString(descriptor_set).file
    database = DescriptorDatabase()
    for file in [*files, *_bundled({file.name for file in files})]:
        database.Add(file)
    try:
        return DescriptorPool(database).FindMessageTypeByName(message)
    except (KeyError, TypeError) as error:
        names = ", ".join(
            name for file in files for name in message_names(file) if not name.startswith("google.")
        )
        raise SettingsError(
            f"The schema has no usable message {message!r} ({error}). It has: {names}"
        ) from None


def message_names(
    file: FileDescriptorProto, as_written: bool = False
) -> dict[str, tuple[int, ...]]:
    """The full name of every message of *file*, with its place: its index at each level.

    ``as_written``: its place in the text, where what a map or a group is made of has none.
    """
    return {
        name: place
        for name, (place, message) in _messages(file, as_written).items()
        if not message.options.map_entry
    }


def all_messages(file: FileDescriptorProto) -> dict[str, DescriptorProto]:
    """The messages of *file* by their full names, those that the entries of maps are too."""
    return {name: message for name, (_, message) in _messages(file).items()}


def _messages(
    file: FileDescriptorProto, as_written: bool = False
) -> dict[str, tuple[tuple[int, ...], DescriptorProto]]:
    found: dict[str, tuple[tuple[int, ...], DescriptorProto]] = {}

    def add(prefix: str, messages: Iterable[DescriptorProto], path: tuple[int, ...]) -> None:
        for number, message in enumerate(messages):
            name, place = f"{prefix}{message.name}", (*path, number)
            found[name] = place, message
            add(f"{name}.", _written(message) if as_written else message.nested_type, place)

    add(f"{file.package}." if file.package else "", file.message_type, ())
    return found


def _written(message: DescriptorProto) -> list[DescriptorProto]:
    """The messages within a message, but for those that its maps and groups are made of."""
    fields = [*message.field, *message.extension]
    groups = {field.type_name for field in fields if field.type == FieldDescriptorProto.TYPE_GROUP}
    names = {name.rpartition(".")[2] for name in groups}
    return [m for m in message.nested_type if not m.options.map_entry and m.name not in names]


def with_digest(descriptor_set: bytes, folder: Path) -> bytes:
    """*descriptor_set* as ``schemas/<topic>.binpb`` holds it: with what its sources were.

    Their hash is a field that Protobuf's own message does not have, so that readers skip it.
    """
    return descriptor_set + _digest(descriptor_set, folder)


def is_stale(descriptor_set: bytes, folder: Path) -> bool:
    """Whether a .proto of *folder* is no longer what *descriptor_set* was compiled from."""
    return not descriptor_set.endswith(_digest(descriptor_set, folder))


def _digest(descriptor_set: bytes, folder: Path) -> bytes:
    """Field 15 of bytes: the hash of those of the set's files that lie in *folder*."""
    found = hashlib.sha256()
    for file in FileDescriptorSet.FromString(descriptor_set).file:
        source = folder / file.name
        if source.is_file():
            found.update(file.name.encode() + b"\0" + source.read_bytes() + b"\0")
    return b"\x7a\x20" + found.digest()


def _bundled(names: set[str]) -> list[FileDescriptorProto]:
    """Protobuf's own files, but for those called *names*."""
    files = []
    for module in _OWN_FILES:
        if module.DESCRIPTOR.name not in names:
            files.append(FileDescriptorProto.FromString(module.DESCRIPTOR.serialized_pb))
    return files
