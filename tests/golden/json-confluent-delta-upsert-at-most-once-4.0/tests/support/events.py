"""Sample records made from a schema: good ones, and one for each way to be bad."""

import base64
import json
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from orders_pipeline.settings import Topic

from .records import encode, spoiled

START = datetime(2026, 1, 1, tzinfo=UTC)
BITS = {ByteType: 8, ShortType: 16, IntegerType: 32, LongType: 64}


def good_records(
    fields: StructType, topic: Topic, count: int, seed: int = 0
) -> Iterator[tuple[bytes, bytes]]:
    """Keys and values of ``count`` records that the schema accepts; the same for the same seed."""
    chance = random.Random(seed)
    for number in range(count):
        value = _value(fields, chance, number)
        yield _key(value, topic, number), encode(topic, value)


def bad_records(fields: StructType, topic: Topic) -> list[tuple[bytes | None, bytes | None]]:
    """Records that are rejected: spoiled, without a required field, without key and value."""
    value = _value(fields, random.Random(0), 0)
    key = _key(value, topic, 0)
    records: list[tuple[bytes | None, bytes | None]] = [(None, None)]
    records += [(key, bytes_) for bytes_ in spoiled(topic, value)]
    required = next((field.name for field in fields if not field.nullable), None)
    value.pop(required or "", None)
    return [*records, (key, encode(topic, value))] if required else records


def _value(fields: StructType, chance: random.Random, number: int) -> dict[str, Any]:
    return {field.name: _sample(field.dataType, chance, number) for field in fields}


def _key(value: dict[str, Any], topic: Topic, number: int) -> bytes:
    keys = {name: value[name] for name in topic.table.key_columns}
    if topic.table.key_format == "json":
        return json.dumps(keys).encode()
    return str(keys[topic.table.key_columns[0]]).encode()


def _sample(kind: DataType, chance: random.Random, number: int) -> Any:
    if isinstance(kind, StructType):
        return {field.name: _sample(field.dataType, chance, number) for field in kind}
    if isinstance(kind, ArrayType):
        return [_sample(kind.elementType, chance, number) for _ in range(chance.randint(0, 3))]
    if isinstance(kind, MapType):
        return {"some": _sample(kind.valueType, chance, number)}
    if isinstance(kind, BooleanType):
        return chance.random() < 0.5
    if isinstance(kind, ByteType | ShortType | IntegerType | LongType):
        return number % 2 ** (BITS[type(kind)] - 1)
    if isinstance(kind, FloatType | DoubleType):
        return round(chance.uniform(0, 1000), 2)
    if isinstance(kind, DecimalType):
        digits = chance.randrange(10 ** min(kind.precision, 6))
        return f"{digits}e-{kind.scale}"
    if isinstance(kind, BinaryType):
        return base64.b64encode(chance.randbytes(6)).decode()
    moment = START + timedelta(seconds=number)
    if isinstance(kind, DateType):
        return moment.date().isoformat()
    if isinstance(kind, TimestampType):
        return moment.isoformat()
    if isinstance(kind, TimestampNTZType):
        return moment.replace(tzinfo=None).isoformat()
    return f"{chance.choice(['red', 'green', 'blue'])}-{number}"
