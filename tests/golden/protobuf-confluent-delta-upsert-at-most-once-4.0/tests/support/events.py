"""Sample records made from a schema: good ones, and one for each way to be bad."""

import random
from collections.abc import Iterator
from typing import Any

from pyspark.sql.types import StructType

from orders_pipeline.settings import Topic

from .records import encode, encode_key, spoiled
from .samples import sample


def good_records(
    fields: StructType, topic: Topic, count: int, seed: int = 0
) -> Iterator[tuple[bytes, bytes]]:
    """Keys and values of ``count`` records that the schema accepts; the same for the same seed."""
    chance = random.Random(seed)
    for number in range(count):
        value = sample(fields, chance, number)
        yield _key(value, topic), encode(topic, value)


def bad_records(fields: StructType, topic: Topic) -> list[tuple[bytes | None, bytes | None]]:
    """Records that are rejected: spoiled, without key and value."""
    value = sample(fields, random.Random(0), 0)
    key = _key(value, topic)
    records: list[tuple[bytes | None, bytes | None]] = [(None, None)]
    records += [(key, bytes_) for bytes_ in spoiled(topic, value)]
    return records


def _key(value: dict[str, Any], topic: Topic) -> bytes:
    keys = {name: value[name] for name in topic.table.key_columns}
    if topic.table.key_format != "string":
        return encode_key(topic, keys)
    return str(keys[topic.table.key_columns[0]]).encode()
