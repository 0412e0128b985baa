"""The wire format of a schema registry: a zero byte, the schema's id in four bytes, the payload.

Source: Confluent's documentation of Schema Registry, "Wire format". Other registries follow it.
"""

from collections.abc import Callable, Collection

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .decode import Decoded
from .reasons import Reason

HEADER_BYTES = 5


def make_framed_decoder(
    decode: Callable[[pa.BinaryArray, pa.Int64Array], Decoded], ids: Collection[int]
) -> Callable[[pa.BinaryArray], Decoded]:
    """``decode`` for values in the wire format, of the schemas that ``ids`` names.

    It is given the values without their headers, and the id that each had; of others two nulls.
    A value that is not framed, and one of another schema, is rejected with a reason of its own.
    """
    known = pa.array(sorted(ids), pa.int64())

    def decode_framed(values: pa.BinaryArray) -> Decoded:
        is_framed = pc.and_(
            pc.greater_equal(pc.binary_length(values), HEADER_BYTES),
            pc.equal(pc.binary_slice(values, 0, 1), pa.scalar(b"\0", pa.binary())),
        )
        schemas = schema_ids(values, is_framed)
        is_known = pc.is_in(schemas, value_set=known)
        payloads = pc.if_else(is_known, pc.binary_replace_slice(values, 0, HEADER_BYTES, b""), None)
        rows, reasons, messages = decode(payloads, pc.if_else(is_known, schemas, None))
        unknown = pc.binary_join_element_wise(
            "The registry has no schema", pc.cast(schemas, pa.string()), "of this subject", " "
        )
        for wrong, reason, message in (
            (pc.invert(is_framed), Reason.NOT_FRAMED, "No zero byte and schema id at its start"),
            (pc.and_(is_framed, pc.invert(is_known)), Reason.UNKNOWN_SCHEMA, unknown),
        ):
            reasons = pc.if_else(wrong.fill_null(False), str(reason), reasons)
            messages = pc.if_else(wrong.fill_null(False), message, messages)
        return Decoded(rows, reasons, messages)

    return decode_framed


def schema_ids(values: pa.BinaryArray, is_framed: pa.BooleanArray) -> pa.Int64Array:
    """The ids in the headers of *values*; null where ``is_framed`` is not true."""
    nothing = pa.scalar(bytes(4), pa.binary())
    header = pc.if_else(
        is_framed.fill_null(False), pc.binary_slice(values, 1, HEADER_BYTES), nothing
    )
    fixed = pc.cast(header, pa.binary(4))
    ids = np.frombuffer(fixed.buffers()[1], dtype=">u4", count=len(fixed)).astype("int64")
    return pc.if_else(is_framed, pa.array(ids), None)
