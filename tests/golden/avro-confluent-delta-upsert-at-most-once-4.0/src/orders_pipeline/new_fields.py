"""Fields that the registry's newest version has and ``schemas/`` has not: taken up, remembered.

Only fields of the record itself, and null wherever they are missing. They are remembered in the
checkpoint's folder, since ``schemas/`` is yours; a field that stands there too is taken from there.
"""

import json
import logging
from functools import lru_cache
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from . import differences, schema
from .compatibility import TYPE
from .errors import SettingsError
from .registry import Registered, latest
from .settings import Topic
from .storage import Folder
from .widening import NewField, new_field, widened

FILE = "new_fields.json"
log = logging.getLogger(__name__)


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
    keys = tuple(name.lower() for name in topic.table.key_columns)
    return _addable(topic.schema_path, fields, latest(topic, TYPE), keys)


def remembered(topic: Topic) -> list[NewField]:
    """What was taken up so far, the oldest first."""
    text = _folder(topic).read(FILE)
    return [NewField(**each) for each in json.loads(text)] if text else []


def remember(topic: Topic, new: list[NewField]) -> None:
    """Adds to what was taken up, durably."""
    found = [each._asdict() for each in [*remembered(topic), *new]]
    _folder(topic).write(FILE, json.dumps(found, indent=2))


# Cached, so that what cannot be taken up is logged once.
@lru_cache(maxsize=256)
def _addable(
    path: Path, fields: StructType, newest: Registered, keys: tuple[str, ...]
) -> list[NewField]:
    found: list[NewField] = []
    for name in differences.unread_fields(fields, newest):
        if "." in name:
            continue
        if name.lower() in keys:
            why = "a table does not tell it from a key column, as they differ in case alone"
            log.warning("%s of version %d is not taken up: %s", name, newest.version, why)
            continue
        try:
            new = new_field(fields, newest, name)
            widened(path, fields, [*found, new])
        except SettingsError as error:
            log.warning("%s of version %d is not taken up: %s", name, newest.version, error)
        else:
            found.append(new)
    return found


def _folder(topic: Topic) -> Folder:
    return Folder(SparkSession.active(), topic.checkpoint)
