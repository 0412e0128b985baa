"""What becomes of a record whose value is null: a row that holds the key alone, and deletes."""

from collections.abc import Callable

import pyarrow as pa

from .decode import Decoded
from .keys import make_key_decoder
from .settings import Topic


def make_tombstone_decoder(topic: Topic, fields: pa.Schema) -> Callable[[pa.Array], Decoded]:
    """Turns the keys of records whose value is null into rows that hold just the key columns.

    A null key, or one that does not give the key columns, is rejected: nothing could match it.
    """
    key_fields = pa.schema([fields.field(column) for column in topic.table.key_columns])
    decode_keys = make_key_decoder(key_fields, topic.table.key_format)

    def decode_tombstones(keys: pa.Array) -> Decoded:
        decoded = decode_keys(keys)
        columns = dict(zip(key_fields.names, decoded.rows.flatten(), strict=True))
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
