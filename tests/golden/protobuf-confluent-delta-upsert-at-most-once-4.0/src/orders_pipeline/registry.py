"""The schema registry, asked from the driver: with which schemas a topic's records were written.

An id always means the same schema. The versions of a subject change, so each call asks for them.
"""

import logging
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Literal, NamedTuple

from .errors import RefusedError
from .registry_client import ask
from .registry_settings import RegistrySettings
from .settings import Topic

Part = Literal["value", "key"]
SchemaType = Literal["AVRO", "JSON", "PROTOBUF"]
log = logging.getLogger(__name__)


class Reference(NamedTuple):
    """A schema that others refer to."""

    name: str
    """As they write it: a full name (Avro), a path to import (Protobuf), a URI (JSON Schema)."""
    schema: str


class Registered(NamedTuple):
    """One version of a subject."""

    id: int
    """What the records that were written with it have in their frames."""
    version: int
    type: SchemaType
    schema: str
    """Its text; of Protobuf a .proto's text, or a FileDescriptorProto in base64."""
    references: tuple[Reference, ...]
    """All that it needs, theirs too, each after those that it needs itself."""


def writer_schemas(
    topic: Topic, schema_type: SchemaType, part: Part = "value"
) -> dict[int, Registered]:
    """By id, every version of the topic's subject; deleted ones too, since their records remain.

    Versions of another type than ``schema_type`` are left out: their records cannot be read.

    Raises:
        RefusedError: no such subject, which would make a dead letter of every record; or it has
            no version of that type.
        NoAnswerError: no registry answers.
        SettingsError: see ``registry_client.ask``.
    """
    registry, subject = topic.settings.registry, subject_of(topic, part)
    try:
        versions = ask(registry, subject, lambda client: client.get_versions(subject, deleted=True))
    except RefusedError as error:
        raise RefusedError(f"{error} {_WITHOUT_IDS[part]}") from None
    newest = _version(registry, subject, max(versions), schema_type)
    found = _versions(registry, subject, tuple(versions), newest.schema_id, schema_type)
    of_type = {each.id: each for each in found if each.type == schema_type}
    if not of_type:
        raise _wrong_type(subject, newest.schema.schema_type, schema_type, part)
    return of_type


def latest(topic: Topic, schema_type: SchemaType) -> Registered:
    """The newest version of the topic's subject that is not deleted.

    Raises:
        RefusedError: there is none, or it is not of that type.
        NoAnswerError: no registry answers.
        SettingsError: see ``registry_client.ask``.
    """
    registry, subject = topic.settings.registry, subject_of(topic)
    newest = _resolved(registry, _version(registry, subject, "latest", schema_type))
    if newest.type != schema_type:
        raise _wrong_type(subject, newest.type, schema_type)
    return newest


def subject_of(topic: Topic, part: Part = "value") -> str:
    """The name under which the schemas of the topic's values, or keys, are registered."""
    return topic.settings.registry.subject.replace("{topic}", topic.name).replace("{part}", part)


# Fetched once, and again when there is a new version. A subject that was deleted for good and
# registered anew counts from 1 again, with other ids, so the newest id is a part of the question.
@lru_cache(maxsize=256)
def _versions(
    registry: RegistrySettings,
    subject: str,
    versions: tuple[int, ...],
    newest_id: int,
    schema_type: SchemaType,
) -> list[Registered]:
    found = [
        _resolved(registry, _version(registry, subject, version, schema_type))
        for version in versions
    ]
    for each in found:
        if each.type != schema_type:
            log.warning("%s has %s as id %d: its records are rejected", subject, each.type, each.id)
    return found


def _version(
    registry: RegistrySettings,
    subject: str,
    version: int | Literal["latest"],
    schema_type: SchemaType,
) -> Any:
    # Any: the client's types call each part of what it gives optional.
    # In Confluent's registry it makes a descriptor of a .proto's text; Apicurio does not know it.
    form = "serialized" if schema_type == "PROTOBUF" else None
    deleted = version != "latest"  # the latest is the latest that is not deleted
    return ask(registry, subject, lambda asked: asked.get_version(subject, version, deleted, form))


def _resolved(registry: RegistrySettings, found: Any) -> Registered:
    schema, references = found.schema, dict(_references(registry, found.schema))
    return Registered(
        found.schema_id,
        found.version,
        schema.schema_type,
        schema.schema_str,
        tuple(Reference(name, text) for name, text in references.items()),
    )


def _references(registry: RegistrySettings, schema: Any) -> Iterator[tuple[str, str]]:
    for each in schema.references or []:
        found = _version(registry, each.subject, each.version, schema.schema_type).schema
        yield from _references(registry, found)
        yield each.name, found.schema_str


_WITHOUT_IDS: dict[Part, str] = {
    "value": "If values bear no schema id, change the template's answer schema_registry: uvx "
    "copier update --data schema_registry=none",
    "key": "If keys bear no schema id, set table.key_framed = false.",
}


def _wrong_type(subject: str, found: str, wanted: str, part: Part = "value") -> RefusedError:
    ways: dict[Part, str] = {
        "value": "change the template's answer value_format: uvx copier update --data "
        f"value_format={found.lower()}",
        "key": "set table.key_format to what the keys are",
    }
    return RefusedError(
        f"The subject {subject!r} holds {found} schemas, and this pipeline reads {wanted}. Nothing "
        f"was written. Correct registry.subject; or {ways[part]}"
    )
