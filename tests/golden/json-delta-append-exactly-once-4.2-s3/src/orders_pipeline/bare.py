"""Values, or keys, in a schema registry's wire format, where bare ones were promised."""

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from .decode import Decoded
from .reasons import Reason

HEADER_BYTES = 5
"""A zero byte and the schema's id in four (Confluent's documentation, "Wire format")."""


def refuse_framed(
    decode: Callable[[pa.BinaryArray], Decoded],
) -> Callable[[pa.BinaryArray], Decoded]:
    """``decode``, with a reason of its own for what looks framed.

    Nothing that looks so is bare: no JSON and no message starts with a zero byte, and a text that
    does is nobody's.
    """

    def decode_bare(values: pa.BinaryArray) -> Decoded:
        framed = pc.and_(
            pc.greater_equal(pc.binary_length(values), HEADER_BYTES),
            pc.equal(pc.binary_slice(values, 0, 1), pa.scalar(b"\0", pa.binary())),
        ).fill_null(False)
        if not framed.true_count:
            return decode(values)
        decoded = decode(pc.if_else(framed, pa.scalar(None, pa.binary()), values))
        message = "Starts like a schema registry's wire format: a zero byte and a schema id"
        return decoded._replace(
            reasons=pc.if_else(framed, str(Reason.FRAMED), decoded.reasons),
            messages=pc.if_else(framed, message, decoded.messages),
        )

    return decode_bare
