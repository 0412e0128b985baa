"""The fields of a sample record, made from a schema in Spark's types."""

import random
from datetime import UTC, datetime, timedelta
from decimal import Decimal
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

START = datetime(2026, 1, 1, tzinfo=UTC)
BITS = {ByteType: 8, ShortType: 16, IntegerType: 32, LongType: 64}


def sample(fields: StructType, chance: random.Random, number: int) -> dict[str, Any]:
    """The fields of the record *number*, of Python's types as a row has them."""
    return {field.name: _sample(field.dataType, chance, number) for field in fields}


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
        return Decimal((0, tuple(map(int, str(digits))), -kind.scale))
    if isinstance(kind, BinaryType):
        return chance.randbytes(6)
    moment = START + timedelta(seconds=number)
    if isinstance(kind, DateType):
        return moment.date()
    if isinstance(kind, TimestampType):
        return moment
    if isinstance(kind, TimestampNTZType):
        return moment.replace(tzinfo=None)
    return f"{chance.choice(['red', 'green', 'blue'])}-{number}"
