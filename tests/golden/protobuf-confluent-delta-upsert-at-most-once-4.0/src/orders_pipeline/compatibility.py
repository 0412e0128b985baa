"""A topic's schema here and in the registry: what is not read, and which can read the other.

BACKWARD  ours reads what is written with the registry's newest version
FORWARD   that version reads what is written with ours
FULL      both
NONE      neither
"""

import logging
from collections import Counter
from functools import lru_cache
from typing import Final

from pyspark.sql.types import StructType

from . import differences
from .errors import RefusedError
from .registry import Registered, latest, writer_schemas
from .schema import read_schema
from .settings import Topic

TYPE: Final = "PROTOBUF"
log = logging.getLogger(__name__)


def unread_fields(topic: Topic, fields: StructType) -> dict[str, int]:
    """The fields that versions in the registry have and ``fields`` has not: how many have each.

    Those of a version that is new are logged.

    Raises:
        RefusedError, NoAnswerError, SettingsError: see ``registry.writer_schemas``.
    """
    found: Counter[str] = Counter()
    for registered in writer_schemas(topic, TYPE).values():
        found.update(_unread_fields(topic.name, fields, registered))
    return dict(found)


@lru_cache(maxsize=1024)
def _unread_fields(topic: str, fields: StructType, registered: Registered) -> list[str]:
    found = differences.unread_fields(fields, registered)
    if found:
        log.warning(
            "version %d of the schema of %s, id %d, has fields that this pipeline's has not, so "
            "they are not read: %s",
            *(registered.version, topic, registered.id, ", ".join(found)),
        )
    return found


def compare(topic: Topic) -> str:
    """What holds between ``schemas/`` and the registry's newest version, in a sentence.

    Raises:
        RefusedError: records of that version cannot be read here.
        NoAnswerError, SettingsError: see ``registry.latest``, ``schema.read_schema``.
    """
    fields, newest = read_schema(topic), latest(topic, TYPE)
    backward = differences.cannot_read(topic, fields, newest)
    forward = differences.cannot_be_read(fields, newest)
    if backward:
        word = "NONE" if forward else "FORWARD"
        raise RefusedError(
            f"{word} with version {newest.version}: {topic.schema_path} does not read what is "
            f"written with it, and those records would be dead letters: {'; '.join(backward)}. "
            "Change one of the two: docs/RUNBOOK.md, A schema change"
        )
    found = f"FULL with version {newest.version}"
    if forward:
        found = f"BACKWARD with version {newest.version}, not the reverse: {'; '.join(forward)}"
    if unread := differences.unread_fields(fields, newest):
        found += f"; not in {topic.schema_path}: {', '.join(unread)}"
    return found
