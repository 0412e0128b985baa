"""How the tests' and the demo's records are written: as JSON, framed by Confluent's serializer."""

import json
from functools import cache
from typing import Any

from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from orders_pipeline.settings import Topic


def schema_text(ddl: str) -> str:
    """What ``schemas/<topic>.ddl`` holds for these columns."""
    return ddl


def encode(topic: Topic, value: dict[str, Any], version: int = 1) -> bytes:
    """The value of a record for the topic, under this version of its schema, which is registered.

    The schema takes any object: what a record must hold, the pipeline judges.
    """
    serializer = _serializer(topic.settings.registry.url, version)
    framed = serializer(value, SerializationContext(topic.name, MessageField.VALUE))
    assert framed
    return framed


def spoiled(topic: Topic, value: dict[str, Any]) -> list[bytes]:
    """What a good value becomes: cut off, no object, empty, not framed, under an unknown id."""
    good = encode(topic, value)
    header, text = good[:5], good[5:]
    return [good[:-1], header + b"[1, 2]", b"", text, b"\0\xff\xff\xff\xff" + text]


@cache
def _serializer(url: str, version: int) -> JSONSerializer:
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": f"Event, version {version}",
        "type": "object",
    }
    return JSONSerializer(json.dumps(schema), SchemaRegistryClient({"url": url}))
