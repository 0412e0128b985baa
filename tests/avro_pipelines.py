"""Rendered Avro pipelines whose decoder is called on bytes, without a broker and a registry.

What a registry would answer is written down here; the tests of a generated repository have one.
"""

import io
import json
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import fastavro
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import BooleanType, StructField, StructType

from running import Repository, end_session, render_to_run

VARIANTS = {
    f"{wire}_{mode}": {"schema_registry": wire, "write_mode": mode}
    for wire in ("none", "confluent")
    for mode in ("append", "upsert")
}
Pair = tuple[bytes | None, bytes | None]
"""A record's key and its value."""


class Pipeline:
    """One topic of a variant, and its schema."""

    def __init__(
        self, spark: SparkSession, repository: Repository, folder: Path, schema: Any, table: Any
    ) -> None:
        self.spark = spark
        names = ("decoding", "schema", "settings", "shapes", "rows", "errors", "avro", "names")
        self.modules = SimpleNamespace(**{name: repository.module(name) for name in names})
        self.repository = repository
        self.subjects: dict[str, dict[int, Any]] = {}
        """What the registry has, for values and for keys."""
        settings = self.modules.settings.Settings(
            name="p", topics=["orders.v1"], trigger="availableNow", schemas=folder, table=table
        )
        self.topic = settings.topic_settings("orders.v1")
        self.topic.schema_path.write_text(_text(schema), encoding="utf-8")

    def write_key_schema(self, schema: Any) -> None:
        path = self.topic.schema_path
        path.with_name("orders.v1.key.avsc").write_text(_text(schema), encoding="utf-8")

    def register(
        self, schemas: dict[int, Any], part: str = "value", references: Any = (), kind: str = "AVRO"
    ) -> None:
        registry = self.repository.module("registry")
        needed = tuple(registry.Reference("x", json.dumps(each)) for each in references)
        self.subjects[part] = {
            number: registry.Registered(number, number, kind, _text(schema), needed)
            for number, schema in schemas.items()
        }

    def fields(self) -> Any:
        return self.modules.schema.read_schema(self.topic)

    def decoder(self) -> Any:
        return self.modules.decoding.Decoder(self.spark, self.topic, self.fields())

    def records(self, pairs: list[Pair]) -> DataFrame:
        rows = [
            ("orders.v1", 0, offset, datetime(2026, 1, 1), key, value, [("h", b"x")])
            for offset, (key, value) in enumerate(pairs)
        ]
        return self.spark.createDataFrame(rows, self.modules.shapes.RECORDS).coalesce(2)

    def decode(self, pairs: list[Pair]) -> list[Any]:
        """What became of each record, as rows of *decoded*; tests what holds for all of them."""
        decoded = self.decoder().decode(self.records(pairs))
        assert decoded.schema == StructType(
            [
                *self.modules.shapes.COORDINATES,
                StructField("record", self.modules.names.table_columns(self.fields())),
                StructField("deleted", BooleanType(), nullable=False),
                StructField("rejected", self.modules.shapes.REJECTED),
            ]
        )
        rows = sorted(decoded.collect(), key=lambda row: int(row["_offset"]))
        assert [row["_offset"] for row in rows] == list(range(len(pairs)))
        for row, (key, value) in zip(rows, pairs, strict=True):
            assert row["deleted"] == (value is None)
            assert not (row["record"] and row["rejected"])
            if row["rejected"]:
                assert row["rejected"]["message"]
                assert row["rejected"]["key"] == key
                assert row["rejected"]["value"] == value
                assert row["rejected"]["headers"] == '[{"key":"h","value":"eA=="}]'
        return rows

    def values(self, *values: bytes | None) -> list[Any]:
        return self.decode([(b"k", value) for value in values])

    def reasons(self, *values: bytes | None) -> list[str | None]:
        return [row["rejected"] and row["rejected"]["reason"] for row in self.values(*values)]

    def verdicts(self, *values: bytes | None) -> list[tuple[str, str] | None]:
        rejects = [row["rejected"] for row in self.values(*values)]
        return [reject and (reject["reason"], reject["message"]) for reject in rejects]


Make = Callable[..., Pipeline]
"""Makes the pipeline of a schema, a variant's wire and mode, and settings of its table."""


def rendered(folder: Path, names: Iterable[str]) -> dict[str, Repository]:
    """Some of the variants, ready to run."""
    return {
        name: render_to_run(
            folder, f"avro-{name.replace('_', '-')}", value_format="avro", **VARIANTS[name]
        )
        for name in names
    }


def session_of(variants: dict[str, Repository]) -> Iterator[SparkSession]:
    """What a fixture yields from: the session of the last of them, which has what all need."""
    *_, last = variants.values()
    session = last.module("spark").start_session("avro", master="local[2]")
    yield session
    end_session(session)


def maker(spark: SparkSession, variants: dict[str, Repository], folder: Path, patch: Any) -> Make:
    """What a fixture gives; ``patch`` is pytest's monkeypatch."""

    def make(schema: Any, wire: str = "none", mode: str = "append", **table: Any) -> Pipeline:
        repository = variants[f"{wire}_{mode}"]
        made = Pipeline(spark, repository, folder, schema, table)

        def writer_schemas(topic: Any, kind: str, part: str = "value") -> dict[int, Any]:
            assert all(each.type == kind for each in made.subjects[part].values())
            return made.subjects[part]

        if wire == "confluent":
            modules = ["avro_wire", *(["avro_key_frames"] if mode == "upsert" else [])]
            for name in modules:
                patch.setattr(repository.module(name), "writer_schemas", writer_schemas)
        return made

    return make


def _text(schema: Any) -> str:
    return schema if isinstance(schema, str) else json.dumps(schema)


# --- Schemas and bytes ----------------------------------------------------------------------------


def record(*fields: Any, name: str = "Order", **more: Any) -> dict[str, Any]:
    """A record's schema; a field is its name, its type and what else is said of it."""
    made = [
        {"name": each[0], "type": each[1], **(each[2] if len(each) > 2 else {})} for each in fields
    ]
    return {"type": "record", "name": name, "fields": made, **more}


def logical(kind: str, logical_type: str, **more: Any) -> dict[str, Any]:
    """A logical type on top of the type ``kind``."""
    return {"type": kind, "logicalType": logical_type, **more}


def array(items: Any) -> dict[str, Any]:
    """An array's schema."""
    return {"type": "array", "items": items}


def mapping(values: Any) -> dict[str, Any]:
    """A map's schema."""
    return {"type": "map", "values": values}


def encoded(schema: Any, value: Any) -> bytes:
    """The bytes that fastavro writes."""
    file = io.BytesIO()
    fastavro.schemaless_writer(file, _parsed(schema), value)
    return file.getvalue()


def is_record(schema: Any, value: bytes) -> bool:
    """Whether fastavro reads *value* as one record, to its end."""
    file = io.BytesIO(value)
    try:
        fastavro.schemaless_reader(file, _parsed(schema), None)
    except Exception:
        return False
    return file.tell() == len(value)


def _parsed(schema: Any) -> Any:
    return fastavro.parse_schema(json.loads(json.dumps(schema)))


def framed(schema_id: int, payload: bytes) -> bytes:
    """Confluent's wire format: a zero byte, the schema's id, the payload."""
    return b"\0" + schema_id.to_bytes(4, "big") + payload


def varint(number: int) -> bytes:
    """An int or a long as Avro writes it."""
    number = ((number << 1) ^ (number >> 63)) & (2**64 - 1)
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])
