"""Fields that the registry's newest version has and ``schemas/`` has not: taken up, remembered.

Only fields of the record itself, and null wherever they are missing. They are remembered in the
checkpoint's folder, since ``schemas/`` is yours; a field that stands there too is taken from there.
"""

import json
import logging
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from . import differences, schema
from .avro_resolution import resolve
from .checkpoint import Checkpoint
from .errors import SettingsError
from .registry import Registered, latest
from .settings import Topic

FILE = "new_fields.json"
log = logging.getLogger(__name__)


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


def read_schema(topic: Topic) -> StructType:
    """The topic's fields: those of ``schemas/``, and after them those that were taken up.

    Raises:
        SettingsError: see ``schema.read_schema``; or what was taken up does not go with them.
    """
    return widened(topic.schema_path, schema.read_schema(topic), remembered(topic))


def waiting(topic: Topic, fields: StructType) -> list[NewField]:
    """What is to be taken up beside ``fields``; nothing unless ``registry.new_fields`` is "add".

    Raises:
        RefusedError, NoAnswerError, SettingsError: see ``registry.latest``.
    """
    if topic.settings.registry.new_fields == "ignore":
        return []
    return _addable(topic.schema_path, fields, latest(topic, "AVRO"))


def remembered(topic: Topic) -> list[NewField]:
    """What was taken up so far, the oldest first."""
    text = _checkpoint(topic).read(FILE)
    return [NewField(**each) for each in json.loads(text)] if text else []


def remember(topic: Topic, new: list[NewField]) -> None:
    """Adds to what was taken up, durably."""
    found = [each._asdict() for each in [*remembered(topic), *new]]
    _checkpoint(topic).write(FILE, json.dumps(found, indent=2))


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


# Cached, so that what cannot be taken up is logged once.
@lru_cache(maxsize=256)
def _addable(path: Path, fields: StructType, newest: Registered) -> list[NewField]:
    names = [name for name in differences.unread_fields(fields, newest) if "." not in name]
    if not names:
        return []
    found: list[NewField] = []
    writer = resolve(SparkSession.active(), schema.avro_text(fields), newest).schema
    for name in names:
        kind = json.loads(_parsed(writer).getField(name).schema().toString())
        branches = kind if isinstance(kind, list) else [kind]
        nullable = ["null", *(branch for branch in branches if branch != "null")]
        new = NewField(newest.version, {"name": name, "type": nullable, "default": None})
        try:
            widened(path, fields, [*found, new])
        except SettingsError as error:
            log.warning("%s of version %d is not taken up: %s", name, newest.version, error)
        else:
            found.append(new)
    return found


def _avro() -> Any:
    jvm: Any = SparkSession.active()._jvm
    return jvm.org.apache.avro


def _parsed(text: str) -> Any:
    return getattr(_avro(), "Schema$Parser")().parse(text)


def _checkpoint(topic: Topic) -> Checkpoint:
    return Checkpoint(SparkSession.active(), topic.checkpoint, topic.name)
