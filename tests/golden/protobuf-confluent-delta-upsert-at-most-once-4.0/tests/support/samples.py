"""The fields of a sample record, made from its message, as Protobuf's own JSON has them."""

import base64
import random
from datetime import UTC, datetime, timedelta
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from pyspark.sql.types import StructType

from orders_pipeline.protobuf_files import find_message
from orders_pipeline.protobuf_types import WRAPPERS, map_parts
from orders_pipeline.schema import compiled_schema

START = datetime(2026, 1, 1, tzinfo=UTC)


def sample(fields: StructType, chance: random.Random, number: int) -> dict[str, Any]:
    """The fields of the record *number*."""
    return _message(find_message(*compiled_schema(fields)), chance, number)


def _message(kind: Descriptor, chance: random.Random, number: int) -> dict[str, Any]:
    left_out = set()
    for oneof in kind.oneofs:  # an optional field is a oneof's only member
        others = [field.name for field in oneof.fields]
        if len(others) > 1 or chance.random() > 0.2:
            others.remove(chance.choice(others))
        left_out |= set(others)
    return {f.name: _field(f, chance, number) for f in kind.fields if f.name not in left_out}


def _field(field: FieldDescriptor, chance: random.Random, number: int) -> Any:
    if parts := map_parts(field):
        key = str(_value(parts[0], chance, number))
        return {key.lower() if key in ("True", "False") else key: _value(parts[1], chance, number)}
    if field.is_repeated:
        return [_value(field, chance, number) for _ in range(chance.randint(0, 3))]
    return _value(field, chance, number)


def _value(field: FieldDescriptor, chance: random.Random, number: int) -> Any:
    kind = field.message_type
    if kind is None:
        return _scalar(field, chance, number)
    if kind.full_name in WRAPPERS:
        return _scalar(kind.fields[0], chance, number)
    match kind.full_name.removeprefix("google.protobuf."):
        case "Timestamp":
            return (START + timedelta(seconds=number)).isoformat()
        case "Duration":
            return f"{number}s"
        case "Struct":
            return {"some": number}
        case "Value":
            return number
        case "ListValue":
            return [number, True]
        case "FieldMask":
            return "some"
        case "Any":
            return {}
    return _message(kind, chance, number)


def _scalar(field: FieldDescriptor, chance: random.Random, number: int) -> Any:
    if field.enum_type is not None:
        return chance.choice(field.enum_type.values).name
    match field.type:
        case FieldDescriptor.TYPE_BOOL:
            return chance.random() < 0.5
        case FieldDescriptor.TYPE_FLOAT | FieldDescriptor.TYPE_DOUBLE:
            return round(chance.uniform(0, 1000), 2)
        case FieldDescriptor.TYPE_BYTES:
            return base64.b64encode(chance.randbytes(6)).decode()
        case FieldDescriptor.TYPE_STRING:
            return f"{chance.choice(['red', 'green', 'blue'])}-{number}"
    return number
