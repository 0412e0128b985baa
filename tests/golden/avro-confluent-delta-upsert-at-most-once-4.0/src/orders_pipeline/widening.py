"""The topic's schema with fields of the registry's: Avro's."""

import json
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from . import schema
from .avro_resolution import resolve
from .registry import Registered


class NewField(NamedTuple):
    """A field to take up."""

    version: int
    """That of the registry's subject in which it was found."""
    field: dict[str, Any]
    """The field as an Avro schema has it: a union with null, with null as its default."""

    @property
    def name(self) -> str:
        """What the field is called."""
        return str(self.field["name"])

    def __str__(self) -> str:
        """The field as it is to be written into ``schemas/``."""
        return json.dumps(self.field)


def new_field(fields: StructType, newest: Registered, name: str) -> NewField:
    """The field ``name`` of a version, null where it is missing."""
    writer = resolve(SparkSession.active(), schema.avro_text(fields), newest).schema
    kind = json.loads(_parsed(writer).getField(name).schema().toString())
    branches = kind if isinstance(kind, list) else [kind]
    nullable = ["null", *(branch for branch in branches if branch != "null")]
    return NewField(newest.version, {"name": name, "type": nullable, "default": None})


def widened(path: Path, fields: StructType, new: list[NewField]) -> StructType:
    """``fields``, which ``path`` says, and at their end those of ``new`` that they lack.

    Raises:
        SettingsError: a new field has no column, or a type whose name stands for another there.
    """
    added = lacking(fields, new)
    if not added:
        return fields
    avro = _avro()
    ours = _parsed(schema.avro_text(fields))
    both = [*ours.getFields()]
    for each in added:  # by itself, since several may hold a type of the same name
        holder = {"type": "record", "name": "_HolderOfANewField", "fields": [each.field]}
        both += [*_parsed(json.dumps(holder)).getFields()]
    record = avro.Schema.createRecord(ours.getName(), ours.getDoc(), ours.getNamespace(), False)
    for alias in ours.getAliases():
        record.addAlias(alias)
    make_field = getattr(avro, "Schema$Field")
    record.setFields([make_field(field, field.schema()) for field in both])
    return schema.record_fields(path, str(record.toString()))


def lacking(fields: StructType, new: list[NewField]) -> list[NewField]:
    """Those of ``new`` that are not among ``fields``, nor under another name (an alias)."""
    ours = _parsed(schema.avro_text(fields)).getFields()
    known = {name for each in ours for name in (each.name(), *each.aliases())}
    return [each for each in new if each.name not in known]


def _avro() -> Any:
    jvm: Any = SparkSession.active()._jvm
    return jvm.org.apache.avro


def _parsed(text: str) -> Any:
    return getattr(_avro(), "Schema$Parser")().parse(text)
