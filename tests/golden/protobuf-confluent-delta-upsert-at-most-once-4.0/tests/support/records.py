"""How the tests' and the demo's records are written: as Protobuf, by Confluent's serializer."""

import json
import zlib
from datetime import datetime
from functools import cache
from typing import Any

from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import json_format
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorSet
from google.protobuf.message_factory import GetMessageClass
from pyspark.sql.types import DataType, IntegerType, StringType, StructType, TimestampType

from orders_pipeline.protobuf_files import Compiled, find_message
from orders_pipeline.schema import read_compiled
from orders_pipeline.settings import Topic

LACKS_A_FIELD = "missing_field"
"""Why a record is rejected that was written without a field that is required."""

ANY_OBJECT = '{"$schema": "http://json-schema.org/draft-07/schema#", "type": "object"}'
KINDS: dict[type[DataType], str] = {
    StringType: "string",
    IntegerType: "int32",
    TimestampType: "google.protobuf.Timestamp",
}
"""The columns of the tests' records in Protobuf."""


def schema_text(ddl: str) -> str:
    """What ``schemas/<topic>.proto`` holds for these columns; NOT NULL is proto2's required.

    A field has the same number in every schema that has it.
    """
    columns = StructType.fromDDL(ddl)
    assert isinstance(columns, StructType)
    fields = [
        f"{'optional' if column.nullable else 'required'} {KINDS[type(column.dataType)]} "
        f"{column.name} = {_number(column.name)};"
        for column in columns
    ]
    head = 'syntax = "proto2"; import "google/protobuf/timestamp.proto"; message Event'
    return " ".join([head, "{", *fields, "}"])


def _number(name: str) -> int:
    return zlib.crc32(name.encode()) % 10_000 + 1


def encode(topic: Topic, value: dict[str, Any], version: int = 1) -> bytes:
    """The value of a record for the topic; ``value`` is as Protobuf's own JSON has it.

    It is registered as the producers have it: version 2 has a field more, and nothing is required.
    """
    named = topic.settings.decode.messages.get(topic.name)
    make = _message_class(read_compiled(topic.schema_path, named), version)
    serializer = _serializer(topic.settings.registry.url, make)
    context = SerializationContext(topic.name, MessageField.VALUE)
    framed = serializer(_filled(make(), value), context)
    assert framed
    return framed


def encode_key(topic: Topic, key: dict[str, Any]) -> bytes:
    """The key of a record for the topic, as its settings say: Protobuf or JSON, framed or not."""
    client = SchemaRegistryClient({"url": topic.settings.registry.url})
    if topic.table.key_format == "protobuf":
        source = topic.schema_path.with_name(f"{topic.name}.key.proto")
        make = GetMessageClass(find_message(*read_compiled(source, None)))
        serializer = ProtobufSerializer(make, client)
        message = _filled(make(), key)
        framed = serializer(message, SerializationContext(topic.name, MessageField.KEY))
        assert framed
        return framed if topic.table.key_framed else framed[6:]  # the index is one byte
    # By hand: Confluent's serializer for JSON wants packages that are here for nothing else.
    schema_id = client.register_schema(f"{topic.name}-key", Schema(ANY_OBJECT, "JSON"))
    text = json.dumps(key, default=str).encode()
    return b"\0" + schema_id.to_bytes(4, "big") + text if topic.table.key_framed else text


def _filled(message: Any, value: dict[str, Any]) -> Any:
    texts = {n: v.isoformat() if isinstance(v, datetime) else v for n, v in value.items()}
    return json_format.ParseDict(texts, message, ignore_unknown_fields=True)


def spoiled(topic: Topic, value: dict[str, Any]) -> list[bytes]:
    """What a good value becomes: cut off, followed by a zero, not framed, under an unknown id."""
    good = encode(topic, value)
    return [good + b"\x0a", good + b"\0", good[6:], b"\0\xff\xff\xff\xff" + good[5:]]


@cache
def _message_class(compiled: Compiled, version: int) -> Any:
    files = FileDescriptorSet.FromString(compiled.descriptor_set)
    for message in files.file[-1].message_type:
        for field in message.field:
            if field.label == FieldDescriptorProto.LABEL_REQUIRED:
                field.label = FieldDescriptorProto.LABEL_OPTIONAL
        if version == 2:
            message.field.add(
                name="since_2",
                number=_number("since_2"),
                type=FieldDescriptorProto.TYPE_STRING,
                label=FieldDescriptorProto.LABEL_OPTIONAL,
            )
    return GetMessageClass(find_message(files.SerializeToString(), compiled.message))


@cache
def _serializer(url: str, make: Any) -> ProtobufSerializer:
    return ProtobufSerializer(make, SchemaRegistryClient({"url": url}))
