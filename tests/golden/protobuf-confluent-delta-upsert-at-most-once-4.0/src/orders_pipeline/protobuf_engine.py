"""Reads records by the batch with ptars, and one by one those that it does not read for certain."""

from collections.abc import Callable, Iterable, Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from google.protobuf.descriptor import Descriptor

from .flags import Flags, flags
from .protobuf_doubts import record_doubt
from .protobuf_judge import Rejection, make_judge
from .protobuf_ptars import Ptars
from .reasons import Reason

Positions = npt.NDArray[np.int64]
Read = tuple[pa.StructArray, dict[int, Rejection]]
"""Plain rows (``protobuf_plain.py``), and by position why a value has none: both are null there."""
_SAMPLE = 32
_REFUSED = Reason.UNDECODABLE, "ptars refuses the value, though google.protobuf reads it"


def make_reader(message: Descriptor, *, forbid_unknown: bool) -> Callable[[pa.BinaryArray], Read]:
    """Reads values of *message*; a null value has neither row nor rejection.

    ptars is fast and lenient. So its rows are written out again: where the bytes are the value's
    own, the row is right. Any other value is judged, and its row is right if it was written as the
    judge writes it. If not, the judge's bytes are read in its place. What ptars refuses on its own
    is rejected, also where google.protobuf reads it.
    """
    damage, judge, unknown_in = make_judge(message, forbid_unknown=forbid_unknown)
    doubt = record_doubt(message)
    ptars = Ptars(message)

    def read(values: pa.BinaryArray) -> Read:
        rejected: dict[int, Rejection] = {}
        if (found := compared(values)) is None:  # which value it is, ptars does not tell
            for position, value in enumerate(values.to_pylist()):
                if value is not None and (why := damage(value)):
                    rejected[position] = why
            values = _null_at(values, rejected)
            found = compared(values)
        if found is None:  # google.protobuf takes an unknown group with a field 0, and ptars none
            rejected |= dict.fromkeys(refused(values), _REFUSED)
            values = _null_at(values, rejected)
            found = compared(values)
        if found and not forbid_unknown and found[2].sum() >= _SAMPLE:
            sample = values.take(np.flatnonzero(found[2])[:_SAMPLE]).to_pylist()
            if ptars.learn(map(unknown_in, sample)):
                found = compared(values)
        if found is None:
            raise ValueError("ptars refuses values together that it reads one by one")
        rows, written, uncertain = found
        if doubt is not None:
            uncertain |= doubt(rows) & flags(values.is_valid())
        return judged(values, rows, written, np.flatnonzero(uncertain), rejected)

    def compared(values: pa.BinaryArray) -> tuple[pa.StructArray, pa.BinaryArray, Flags] | None:
        """The rows of *values*, what they are written as, and where that is not the same."""
        batch = ptars.read(values)
        if batch is None:
            return None
        written = ptars.write(batch)
        differs = flags(pc.not_equal(written, values).fill_null(False))
        return batch.to_struct_array(), written, differs.copy()

    def refused(values: pa.BinaryArray, first: int = 0) -> Iterator[int]:
        """The positions, from ``first`` on, of the values that ptars refuses on their own."""
        if ptars.read(values) is not None:
            return
        if len(values) == 1:
            yield first
            return
        half = len(values) // 2  # a read takes as long for one value as for hundreds
        yield from refused(values.slice(0, half), first)
        yield from refused(values.slice(half), first + half)

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
            more = ptars.read(pa.array(again, pa.binary()))
            if more is None:
                raise ValueError("ptars refuses values that google.protobuf has written")
            rows = pa.concat_arrays([rows, more.to_struct_array()])
        return rows.take(pa.array(sources, mask=sources < 0)), rejected

    return read


def _null_at(values: pa.BinaryArray, positions: Iterable[int]) -> pa.BinaryArray:
    gone = np.zeros(len(values), np.bool_)
    gone[list(positions)] = True
    return pc.if_else(pa.array(gone), pa.scalar(None, pa.binary()), values)
