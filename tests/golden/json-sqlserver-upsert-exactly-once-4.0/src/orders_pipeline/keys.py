"""A Kafka key to the key columns it stands for: which row a tombstone deletes."""

from collections.abc import Callable
from typing import Literal

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import StructType

from .arrow import arrow_schema
from .decode import Decoded, make_decoder
from .errors import SettingsError
from .json_types import NUMBER
from .reasons import Reason
from .settings import Topic


def key_columns(topic: Topic, fields: StructType) -> pa.Schema:
    """Just the key columns of the topic's *fields*."""
    columns = arrow_schema(fields)
    return pa.schema([columns.field(name) for name in topic.table.key_columns])


def decode_keys(
    keys: pa.BinaryArray, schema: pa.Schema, key_format: Literal["string", "json"]
) -> Decoded:
    """Decodes *keys* alone; many batches should share one :func:`make_key_decoder`."""
    return make_key_decoder(schema, key_format)(keys)


def make_key_decoder(
    schema: pa.Schema, key_format: Literal["string", "json"]
) -> Callable[[pa.BinaryArray], Decoded]:
    """A decoder for keys; *schema* has just the key columns, each of them required.

    ``json``: an object that holds the key columns; its other fields are ignored.
    ``string``: the text of the one key column, bare: ``42``, ``2026-01-31``, ``any text``. It is
    judged as the same text in a JSON value would be.
    A null key is rejected as ``null_key``.

    Raises:
        SettingsError: a column cannot be read from a key, or a string key has several columns.
    """
    if key_format == "string" and len(schema) != 1:
        raise SettingsError(
            f"A string key holds one key column, not {schema.names}; use the key format json"
        )
    decode = make_decoder(pa.schema([f.with_nullable(False) for f in schema]), "ignore")

    def decode_present(keys: pa.BinaryArray) -> Decoded:
        objects = _objects(keys, schema.field(0)) if key_format == "string" else keys
        rows, reasons, messages = decode(objects)
        absent = keys.is_null()
        return Decoded(
            rows,
            pc.if_else(absent, pa.scalar(str(Reason.NULL_KEY)), reasons),
            pc.if_else(absent, pa.scalar("The record has no key"), messages),
        )

    return decode_present


def _objects(keys: pa.BinaryArray, column: pa.Field) -> pa.BinaryArray:
    """The JSON objects that string keys stand for."""
    name = msgspec.json.encode(column.name)
    literal = _is_literal(column.type)
    objects = [
        None if key is None else b"{" + name + b":" + _json(key, literal) + b"}"
        for key in keys.to_pylist()
    ]
    return pa.array(objects, pa.binary())


def _is_literal(kind: pa.DataType) -> bool:
    types = pa.types
    return any(
        is_of(kind)
        for is_of in (types.is_integer, types.is_floating, types.is_decimal, types.is_boolean)
    )


def _json(key: bytes, literal: bool) -> bytes:
    try:
        text = key.decode()
    except UnicodeDecodeError:
        return b'"%b"' % key  # the decoder rejects it as such
    if literal and (NUMBER.fullmatch(text) or text in ("true", "false")):
        return key
    return msgspec.json.encode(text)
