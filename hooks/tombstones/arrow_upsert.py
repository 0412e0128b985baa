"""What becomes of a record whose value is null: a row that holds the key alone, and deletes."""

from collections.abc import Callable
from functools import partial

import pyarrow as pa

from .decode import Decoded
from .key_frames import key_decoder
from .settings import Topic


def tombstone_decoder(
    topic: Topic, fields: pa.Schema
) -> Callable[[], Callable[[pa.Array], Decoded]]:
    """What makes, in each of Spark's workers, a decoder of keys of records whose value is null.

    It turns them into rows that hold just the key columns. A null key, or one that does not give
    the key columns, is rejected: nothing could match it.

    Raises:
        PipelineError: what the schema registry raises, where there is one.
    """
    key_fields = pa.schema([fields.field(column) for column in topic.table.key_columns])
    return partial(_make_decoder, key_decoder(topic, key_fields), key_fields.names, fields)


def _make_decoder(
    make_key_decoder: Callable[[], Callable[[pa.Array], Decoded]],
    key_columns: list[str],
    fields: pa.Schema,
) -> Callable[[pa.Array], Decoded]:
    decode_keys = make_key_decoder()

    def decode_tombstones(keys: pa.Array) -> Decoded:
        decoded = decode_keys(keys)
        columns = dict(zip(key_columns, decoded.rows.flatten(), strict=True))
        rows = pa.StructArray.from_arrays(
            [
                columns[field.name] if field.name in columns else pa.nulls(len(keys), field.type)
                for field in fields
            ],
            fields=[field.with_nullable(True) for field in fields],
            mask=decoded.reasons.is_valid(),
        )
        return decoded._replace(rows=rows)

    return decode_tombstones
