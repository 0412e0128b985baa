"""What becomes of a record whose value is null: nothing, in this pipeline."""

from collections.abc import Callable
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import StructType

from .arrow import arrow_schema
from .decode import Decoded
from .reasons import Reason


def tombstone_decoder(fields: StructType) -> Callable[[], Callable[[pa.Array], Decoded]]:
    """What makes, in each of Spark's workers, the decoder of records whose value is null.

    Given their keys, it says what becomes of them. A tombstone makes no row and is counted as
    skipped; a record with neither key nor value is nobody's tombstone and is rejected.
    """
    return partial(_make_decoder, arrow_schema(fields))


def _make_decoder(fields: pa.Schema) -> Callable[[pa.Array], Decoded]:
    row_type = pa.struct([field.with_nullable(True) for field in fields])

    def decode_tombstones(keys: pa.Array) -> Decoded:
        nothing = pa.nulls(len(keys), pa.string())
        no_key = keys.is_null()
        return Decoded(
            rows=pa.nulls(len(keys), row_type),
            reasons=pc.if_else(no_key, Reason.NULL_KEY.value, nothing),
            messages=pc.if_else(no_key, "the record has neither a key nor a value", nothing),
        )

    return decode_tombstones
