"""How the tests' and the demo's records are written: as Avro, framed by Confluent's serializer."""

import json
from functools import cache
from typing import Any

from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from pyspark.sql.types import DataType, IntegerType, StringType, StructType, TimestampType

from orders_pipeline.settings import Topic

LACKS_A_FIELD = "incompatible_schema"
"""Why a record is rejected that was written without a field that is required."""

ANY_OBJECT = '{"$schema": "http://json-schema.org/draft-07/schema#", "type": "object"}'
KINDS: dict[type[DataType], Any] = {
    StringType: "string",
    IntegerType: "int",
    TimestampType: {"type": "long", "logicalType": "timestamp-micros"},
}
"""The columns of the tests' records in Avro."""


def schema_text(ddl: str) -> str:
    """What ``schemas/<topic>.avsc`` holds for these columns; one without NOT NULL may be null."""
    fields = []
    columns = StructType.fromDDL(ddl)
    assert isinstance(columns, StructType)
    for column in columns:
        kind = KINDS[type(column.dataType)]
        if column.nullable:
            fields.append({"name": column.name, "type": ["null", kind], "default": None})
        else:
            fields.append({"name": column.name, "type": kind})
    return json.dumps({"type": "record", "name": "Event", "fields": fields})


def encode(topic: Topic, value: dict[str, Any], version: int = 1) -> bytes:
    """The value of a record for the topic, as fastavro takes it, under its schema, registered.

    Version 2 has a field more than ``schemas/<topic>.avsc``.
    """
    schema = json.loads(topic.schema_path.read_text())
    if version == 2:
        schema["fields"].append({"name": "since_2", "type": ["null", "string"], "default": None})
    serializer = _serializer(topic.settings.registry.url, json.dumps(schema))
    framed = serializer(value, SerializationContext(topic.name, MessageField.VALUE))
    assert framed
    return framed


def encode_key(topic: Topic, key: dict[str, Any]) -> bytes:
    """The key of a record for the topic, as its settings say: Avro or JSON, framed or not."""
    client = SchemaRegistryClient({"url": topic.settings.registry.url})
    if topic.table.key_format == "avro":
        schema = topic.schema_path.with_name(f"{topic.name}.key.avsc").read_text()
        serializer = AvroSerializer(client, schema)
        framed = serializer(key, SerializationContext(topic.name, MessageField.KEY))
        assert framed
    else:
        # By hand: Confluent's serializer for JSON wants packages that are here for nothing else.
        schema_id = client.register_schema(f"{topic.name}-key", Schema(ANY_OBJECT, "JSON"))
        framed = b"\0" + schema_id.to_bytes(4, "big") + json.dumps(key, default=str).encode()
    return framed if topic.table.key_framed else framed[5:]


def spoiled(topic: Topic, value: dict[str, Any]) -> list[bytes]:
    """What a good value becomes: cut off, too long, empty, not framed, under an unknown id."""
    good = encode(topic, value)
    return [good[:-1], good + b"\0", b"", good[5:], b"\0\xff\xff\xff\xff" + good[5:]]


@cache
def _serializer(url: str, schema: str) -> AvroSerializer:
    return AvroSerializer(SchemaRegistryClient({"url": url}), schema)
