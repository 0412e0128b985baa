"""The columns of times and of JSON, from messages that Protobuf itself defines."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from google.protobuf import json_format
from google.protobuf.message import DecodeError, Message

from .flags import Flags, flags
from .reasons import Reason

Numbers = npt.NDArray[np.int64]


class Fault(NamedTuple):
    """Why some elements of a column, or some rows, cannot be kept."""

    at: Flags
    reason: Reason
    message: str


Column = Callable[[pa.Array], tuple[pa.Array, list[Fault]]]
"""Makes a column of a plain one, and tells its faults; where one is, the value means nothing."""


def timestamp_column(path: str, plain: pa.StructArray) -> tuple[pa.Array, list[Fault]]:
    """Times from seconds and nanoseconds; digits after the microseconds are cut off."""
    seconds, nanos, there = _parts(plain)
    right = (seconds >= -62_135_596_800) & (seconds <= 253_402_300_799)
    right &= (nanos >= 0) & (nanos < 1_000_000_000)
    times = _micros(seconds, nanos, right, there).cast(pa.timestamp("us", tz="UTC"))
    words = f"Timestamp outside the years 1 to 9999 - at `{path}`"
    return times, [Fault(there & ~right, Reason.OUT_OF_RANGE, words)]


def duration_column(path: str, plain: pa.StructArray) -> tuple[pa.Array, list[Fault]]:
    """Microseconds; both parts must have the same sign, and 10,000 years are the most."""
    seconds, nanos, there = _parts(plain)
    right = (seconds >= -315_576_000_000) & (seconds <= 315_576_000_000)
    right &= np.abs(nanos) < 1_000_000_000
    right &= (seconds == 0) | (nanos == 0) | ((seconds < 0) == (nanos < 0))
    words = f"Duration over 10,000 years, or of two signs - at `{path}`"
    return _micros(seconds, nanos, right, there), [
        Fault(there & ~right, Reason.OUT_OF_RANGE, words)
    ]


def _parts(plain: pa.StructArray) -> tuple[Numbers, Numbers, Flags]:
    parts = (part.cast(pa.int64()).fill_null(0).to_numpy() for part in plain.flatten()[:2])
    return *parts, flags(plain.is_valid())


def _micros(seconds: Numbers, nanos: Numbers, right: Flags, there: Flags) -> pa.Int64Array:
    micros = np.where(right, seconds, 0) * 1_000_000 + np.trunc(nanos / 1000).astype(np.int64)
    return pa.array(micros, mask=~there)


def json_column(
    path: str, parse: Callable[[bytes], Message], plain: pa.BinaryArray
) -> tuple[pa.Array, list[Fault]]:
    """JSON texts from the bytes of a Struct, Value or ListValue."""
    texts: list[str | None] = []
    broken, unwritable = np.zeros((2, len(plain)), np.bool_)
    for number, value in enumerate(plain.to_pylist()):
        text = None
        try:
            if value is not None:
                text = json_format.MessageToJson(
                    parse(value), indent=None, sort_keys=True, ensure_ascii=False
                )
        except DecodeError:
            broken[number] = True
        except ValueError:  # NaN or an infinity
            unwritable[number] = True
        texts.append(text)
    return pa.array(texts, pa.string()), [
        Fault(broken, Reason.UNDECODABLE, f"Not a Struct, Value or ListValue - at `{path}`"),
        Fault(unwritable, Reason.OUT_OF_RANGE, f"Number that JSON has not - at `{path}`"),
    ]
