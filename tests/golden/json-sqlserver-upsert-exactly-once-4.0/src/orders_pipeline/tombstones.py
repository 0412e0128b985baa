"""What becomes of a record whose value is null: a row that holds the key alone, and deletes."""

from collections.abc import Callable
from functools import partial

import pyarrow as pa
from pyspark.sql.types import StructType

from .arrow import arrow_schema
from .decode import Decoded
from .key_frames import key_decoder
from .settings import Topic


def tombstone_decoder(
    topic: Topic, fields: StructType
) -> Callable[[], Callable[[pa.Array], Decoded]]:
    """What makes, in each of Spark's workers, the decoder of records whose value is null.

    It turns their keys into rows that hold just the key columns. A null key, or one that does not
    give the key columns, is rejected: nothing could match it.

    Raises:
        SettingsError: a key cannot give the key columns.
    """
    make_key_decoder = key_decoder(topic, fields)
    return partial(_make_decoder, make_key_decoder, topic.table.key_columns, arrow_schema(fields))


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
