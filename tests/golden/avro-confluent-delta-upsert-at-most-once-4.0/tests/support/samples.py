"""The fields of a sample record, made from its Avro schema."""

import json
import random
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from fastavro.schema import expand_schema
from pyspark.sql.types import StructType

from orders_pipeline.schema import avro_text

START = datetime(2026, 1, 1, tzinfo=UTC)


def sample(fields: StructType, chance: random.Random, number: int) -> dict[str, Any]:
    """The fields of the record *number*, as fastavro takes them."""
    found: dict[str, Any] = _sample(expand_schema(json.loads(avro_text(fields))), chance, number)
    return found


def _sample(schema: Any, chance: random.Random, number: int) -> Any:
    if isinstance(schema, list):
        branches = [branch for branch in schema if branch != "null"]
        is_null = "null" in schema and chance.random() < 0.2
        return None if is_null or not branches else _sample(branches[0], chance, number)
    if isinstance(schema, str):
        schema = {"type": schema}
    match schema.get("logicalType", schema["type"]):
        case "record":
            return {f["name"]: _sample(f["type"], chance, number) for f in schema["fields"]}
        case "array":
            return [_sample(schema["items"], chance, number) for _ in range(chance.randint(0, 3))]
        case "map":
            return {"some": _sample(schema["values"], chance, number)}
        case "enum":
            return chance.choice(schema["symbols"])
        case "decimal":
            digits = chance.randrange(10 ** min(schema["precision"], 6))
            return Decimal(digits).scaleb(-schema.get("scale", 0))
        case "uuid" if schema["type"] == "string":  # fastavro takes one in 16 bytes as those
            return UUID(int=chance.getrandbits(128), version=4)
        case "boolean":
            return chance.random() < 0.5
        case "int" | "long":
            return number
        case "float" | "double":
            return round(chance.uniform(0, 1000), 2)
        case "bytes" | "fixed" | "duration":
            return chance.randbytes(schema.get("size", 6))
        case "string":
            return f"{chance.choice(['red', 'green', 'blue'])}-{number}"
        case logical:
            return _moment(logical, schema, START + timedelta(seconds=number))


def _moment(logical: str, schema: Any, moment: datetime) -> Any:
    if logical == "date":
        return moment.date()
    if logical in ("time-millis", "time-micros"):
        return moment.time()
    if logical in ("timestamp-millis", "timestamp-micros"):
        return moment
    if logical in ("local-timestamp-millis", "local-timestamp-micros"):
        return moment.replace(tzinfo=None)
    # fastavro and Avro take a logical type that they do not know as what it is made of.
    return _sample({**schema, "logicalType": schema["type"]}, random.Random(0), moment.second)
