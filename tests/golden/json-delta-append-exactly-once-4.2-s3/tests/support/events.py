"""Sample records made from a schema: good ones, and one for each way to be bad."""

import random
from collections.abc import Iterator

from pyspark.sql.types import StructType

from orders_pipeline.settings import Topic

from .records import encode, spoiled
from .samples import sample


def good_records(
    fields: StructType, topic: Topic, count: int, seed: int = 0
) -> Iterator[tuple[bytes, bytes]]:
    """Keys and values of ``count`` records that the schema accepts; the same for the same seed."""
    chance = random.Random(seed)
    for number in range(count):
        value = sample(fields, chance, number)
        yield _key(topic, number), encode(topic, value)


def bad_records(fields: StructType, topic: Topic) -> list[tuple[bytes | None, bytes | None]]:
    """Records that are rejected: spoiled, without a required field, without key and value."""
    value = sample(fields, random.Random(0), 0)
    key = _key(topic, 0)
    records: list[tuple[bytes | None, bytes | None]] = [(None, None)]
    records += [(key, bytes_) for bytes_ in spoiled(topic, value)]
    required = next((field.name for field in fields if not field.nullable), None)
    value.pop(required or "", None)
    return [*records, (key, encode(topic, value))] if required else records


def _key(topic: Topic, number: int) -> bytes:
    return f"{topic.name}-{number}".encode()
