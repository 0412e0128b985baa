"""What becomes of a record whose value is null: nothing, in this pipeline."""

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from .decode import Decoded
from .reasons import Reason
from .settings import Topic


def tombstone_decoder(
    topic: Topic, fields: pa.Schema
) -> Callable[[], Callable[[pa.Array], Decoded]]:
    """What makes, in each of Spark's workers, a decoder of keys of records whose value is null.

    A tombstone makes no row and is counted as skipped; a record with neither key nor value is
    nobody's tombstone and is rejected.
    """
    row_type = pa.struct([field.with_nullable(True) for field in fields])

    def decode_tombstones(keys: pa.Array) -> Decoded:
        nothing = pa.nulls(len(keys), pa.string())
        no_key = keys.is_null()
        return Decoded(
            rows=pa.nulls(len(keys), row_type),
            reasons=pc.if_else(no_key, Reason.NULL_KEY.value, nothing),
            messages=pc.if_else(no_key, "the record has neither a key nor a value", nothing),
        )

    return lambda: decode_tombstones
