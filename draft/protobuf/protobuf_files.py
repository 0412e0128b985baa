"""The messages in a compiled schema: a serialized ``FileDescriptorSet``, the topic's file last."""

from collections.abc import Iterable

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
from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto, FileDescriptorSet
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


def message_names(file: FileDescriptorProto) -> dict[str, tuple[int, ...]]:
    """The full name of every message of *file*, with its place: its index at each level."""
    found: dict[str, tuple[int, ...]] = {}

    def add(prefix: str, messages: Iterable[DescriptorProto], path: tuple[int, ...]) -> None:
        for number, message in enumerate(messages):
            if not message.options.map_entry:
                name = f"{prefix}{message.name}"
                found[name] = (*path, number)
                add(f"{name}.", message.nested_type, (*path, number))

    add(f"{file.package}." if file.package else "", file.message_type, ())
    return found


def _bundled(names: set[str]) -> list[FileDescriptorProto]:
    """Protobuf's own files, but for those called *names*."""
    files = []
    for module in _OWN_FILES:
        if module.DESCRIPTOR.name not in names:
            files.append(FileDescriptorProto.FromString(module.DESCRIPTOR.serialized_pb))
    return files
