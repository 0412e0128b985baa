"""Reads records by the batch with ptars, and one by one those that it does not read for certain."""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from google.protobuf.descriptor import Descriptor
from ptars import HandlerPool, PtarsConfig

from .protobuf_doubts import record_doubt
from .protobuf_judge import Rejection, make_judge
from .protobuf_plain import plain_message
from .protobuf_values import flags

Positions = npt.NDArray[np.int64]
Read = tuple[pa.StructArray, dict[int, Rejection]]
"""Plain rows (``protobuf_plain.py``), and by position why a value has none: both are null there."""


def make_reader(message: Descriptor, *, forbid_unknown: bool) -> Callable[[pa.BinaryArray], Read]:
    """Reads values of *message*; a null value has neither row nor rejection.

    ptars is fast and lenient. So its rows are written out again: where the bytes are the value's
    own, the row is right. Any other value is judged, and its row is right if it was written as the
    judge writes it. If not, the judge's bytes are read in its place.
    """
    damage, judge = make_judge(message, forbid_unknown=forbid_unknown)
    doubt = record_doubt(message)
    plain, _ = plain_message(message, json_as_bytes=True)
    # An entry of a map without a value is a panic unless a value may be null.
    config = PtarsConfig(list_value_name="element", map_value_nullable=True)
    handler = HandlerPool([plain.file], config).get_for_message(plain)

    def read(values: pa.BinaryArray) -> Read:
        rejected: dict[int, Rejection] = {}
        batch = _batch(handler, values)
        if batch is None:  # which value it is, ptars does not tell
            for position, value in enumerate(values.to_pylist()):
                if value is not None and (why := damage(value)):
                    rejected[position] = why
            values = _null_at(values, rejected)
            batch = handler.array_to_record_batch(values)
        rows = batch.to_struct_array()
        written = handler.record_batch_to_array(batch)
        uncertain = flags(pc.not_equal(written, values).fill_null(False))
        if doubt is not None:
            uncertain |= doubt(rows) & flags(values.is_valid())
        return judged(values, rows, written, np.flatnonzero(uncertain), rejected)

    def judged(
        values: pa.BinaryArray,
        rows: pa.StructArray,
        written: pa.BinaryArray,
        uncertain: Positions,
        rejected: dict[int, Rejection],
    ) -> Read:
        if not len(uncertain) and not values.null_count:
            return rows, rejected
        sources = np.where(flags(values.is_valid()), np.arange(len(values)), -1)
        again: list[bytes] = []
        texts = values.take(uncertain).to_pylist(), written.take(uncertain).to_pylist()
        for position, value, mine in zip(uncertain.tolist(), *texts, strict=True):
            verdict = judge(value, mine)
            if isinstance(verdict, tuple):
                rejected[position] = verdict
                sources[position] = -1
            elif verdict != mine:
                sources[position] = len(rows) + len(again)
                again.append(verdict)
        if again:
            more = handler.array_to_record_batch(pa.array(again, pa.binary()))
            rows = pa.concat_arrays([rows, more.to_struct_array()])
        return rows.take(pa.array(sources, mask=sources < 0)), rejected

    return read


def _batch(handler: Any, values: pa.BinaryArray) -> pa.RecordBatch | None:
    """What ptars reads; None where one of *values* is not the message."""
    try:
        return handler.array_to_record_batch(values)
    except ValueError:
        return None
    except BaseException as error:
        # A length near 2**64 makes it panic, which is no Exception, of a class without an address.
        if type(error).__name__ == "PanicException":
            return None
        raise


def _null_at(values: pa.BinaryArray, positions: Iterable[int]) -> pa.BinaryArray:
    gone = np.zeros(len(values), np.bool_)
    gone[list(positions)] = True
    return pc.if_else(pa.array(gone), pa.scalar(None, pa.binary()), values)
