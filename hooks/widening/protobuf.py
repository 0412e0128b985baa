"""The topic's schema with fields of the registry's: Protobuf's."""

from pathlib import Path
from typing import Any, NamedTuple

from google.protobuf import json_format
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorSet
from pyspark.sql.types import StructType

from .errors import SettingsError
from .protobuf_files import BUNDLED, Compiled, all_messages
from .protobuf_versions import file_of
from .registry import Registered
from .schema import compiled_schema, record_fields


class NewField(NamedTuple):
    """A field to take up."""

    version: int
    """That of the registry's subject in which it was found."""
    field: dict[str, Any]
    """Its ``FieldDescriptorProto``, in Protobuf's JSON: not required, and in no oneof."""

    @property
    def name(self) -> str:
        """What the field is called."""
        return str(self.field["name"])

    def __str__(self) -> str:
        """The field as it is to be written into ``schemas/``."""
        field = _described(self)
        kind = field.type_name.lstrip(".") or _words(FieldDescriptorProto.Type.Name(field.type))
        label = _words(FieldDescriptorProto.Label.Name(field.label))
        return f"{label} {kind} {field.name} = {field.number};"


def new_field(fields: StructType, newest: Registered, name: str) -> NewField:
    """The field ``name`` of a version, null where it is missing.

    Raises:
        SettingsError: it is of a type that no file of Protobuf's own defines.
    """
    file = file_of(newest)
    messages = all_messages(file) if file else {}
    message = messages[compiled_schema(fields).message]
    [found] = [each for each in message.field if each.name == name]
    kind = found.type_name.lstrip(".")
    if kind and kind not in BUNDLED:
        raise SettingsError(f"its type is {kind}, which is not Protobuf's own")
    kept = FieldDescriptorProto(
        name=name,
        number=found.number,
        type=found.type,
        type_name=found.type_name or None,
        label=FieldDescriptorProto.LABEL_OPTIONAL,
    )
    if found.label == FieldDescriptorProto.LABEL_REPEATED:
        kept.label = FieldDescriptorProto.LABEL_REPEATED
    return NewField(newest.version, json_format.MessageToDict(kept))


def widened(path: Path, fields: StructType, new: list[NewField]) -> StructType:
    """``fields``, which ``path`` says, and at their end those of ``new`` that they lack.

    Raises:
        SettingsError: a new field has no column, or the name of one that has another number.
    """
    added = lacking(fields, new)
    if not added:
        return fields
    compiled = compiled_schema(fields)
    files = FileDescriptorSet.FromString(compiled.descriptor_set)
    ours, message = files.file[-1], _message(files, compiled.message)
    for each in added:
        field = _described(each)
        if field.name in {known.name for known in message.field}:
            raise SettingsError(f"{path} has a field {field.name}, with another number")
        # In proto3 a field that may be null is alone in a oneof of its own.
        if ours.syntax == "proto3" and field.label == FieldDescriptorProto.LABEL_OPTIONAL:
            field.proto3_optional, field.oneof_index = True, len(message.oneof_decl)
            message.oneof_decl.add(name=f"_{field.name}")
        message.field.append(field)
        imported = BUNDLED.get(field.type_name.lstrip("."))
        if imported and imported not in ours.dependency:
            ours.dependency.append(imported)
    return record_fields(path, Compiled(files.SerializeToString(), compiled.message))


def lacking(fields: StructType, new: list[NewField]) -> list[NewField]:
    """Those of ``new`` whose numbers are not among those of ``fields``."""
    compiled = compiled_schema(fields)
    message = _message(FileDescriptorSet.FromString(compiled.descriptor_set), compiled.message)
    known = {field.number for field in message.field}
    return [each for each in new if each.field["number"] not in known]


def _message(files: FileDescriptorSet, name: str) -> DescriptorProto:
    return all_messages(files.file[-1])[name]


def _described(new: NewField) -> FieldDescriptorProto:
    return json_format.ParseDict(new.field, FieldDescriptorProto())


def _words(constant: str) -> str:
    return constant.partition("_")[2].lower()
