"""The message's index: in the wire format of a registry it lies between header and payload.

It says which message of the schema's file the payload is: how many numbers follow, then the index
at each level of nesting, all as zigzag varints. A single zero byte stands for the first message.
Source: Confluent's documentation of Schema Registry, "Wire format".
"""

from collections.abc import Callable, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .decode import Decoded
from .reasons import Reason

Names = Mapping[tuple[int, ...], str]
"""The messages of a file: the full name of each by its place, an index at each level."""

_MOST_LEVELS = 32


def make_indexed_decoder(
    decode: Callable[[pa.BinaryArray], Decoded],
    versions: Mapping[int, Names | None],
    message: str,
) -> Callable[[pa.BinaryArray, pa.Int64Array], Decoded]:
    """``decode`` for values that begin with an index: those of *message*, a full name, pass.

    The result takes values without their five-byte headers, and the schema's id of each. It rejects
    a value of another message, and one of a schema of which ``versions`` has no messages. Each
    schema counts for itself: a version may have its messages in an order of its own.
    """
    starts = {
        key: [start for path, name in names.items() if name == message for start in _starts(path)]
        for key, names in versions.items()
        if names is not None
    }

    def decode_indexed(values: pa.BinaryArray, ids: pa.Int64Array) -> Decoded:
        pending = np.asarray(values.is_valid().to_numpy(zero_copy_only=False))
        lengths = np.zeros(len(values), np.int64)
        # Nearly all begin as a producer writes the index: those are found all at once.
        for key in pc.unique(ids).drop_null().to_pylist():
            of_schema = pc.equal(ids, key)
            for start in starts.get(key, ()):
                same = pc.and_(of_schema, pc.starts_with(values, pattern=start)).fill_null(False)
                found = pending & same.to_numpy(zero_copy_only=False)
                lengths[found] = len(start)
                pending &= ~found
        rejected: dict[int, tuple[Reason, str]] = {}
        for position in np.flatnonzero(pending).tolist():
            key = ids[position].as_py()
            names, index = versions[key], read_index(values[position].as_py())
            if names is None:
                words = f"The registry's schema {key} does not compile, so no message is known"
                rejected[position] = Reason.UNKNOWN_SCHEMA, words
            elif index is None:
                words = "The value is cut off, or has no message index after the schema's id"
                rejected[position] = Reason.UNDECODABLE, words
            elif names.get(index[0]) == message:  # written in another way than most write it
                lengths[position] = index[1]
            else:
                other = names.get(index[0]) or f"number {list(index[0])} of its file, which is none"
                words = f"The message is {other}; this topic's records are {message}"
                rejected[position] = Reason.WRONG_MESSAGE, words
        return _with(decode(_stripped(values, lengths)), rejected)

    return decode_indexed


def read_index(value: bytes) -> tuple[tuple[int, ...], int] | None:
    """The index at the start of *value*, and how many bytes it takes; None if there is none."""
    numbers: list[int] = []
    number = shift = 0
    for at, byte in enumerate(value[: 5 * (_MOST_LEVELS + 1)], start=1):
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte & 0x80:
            continue
        numbers.append(number >> 1 if number % 2 == 0 else -(number + 1) // 2)
        number = shift = 0
        if not 0 <= numbers[0] <= _MOST_LEVELS:
            return None
        if len(numbers) == numbers[0] + 1:
            return tuple(numbers[1:]) or (0,), at
    return None


def written_index(path: tuple[int, ...]) -> bytes:
    """*path* as an index, in full: without the short form for the first message."""
    written = bytearray()
    for number in (len(path), *path):
        number <<= 1
        while number > 0x7F:
            written.append(number & 0x7F | 0x80)
            number >>= 7
        written.append(number)
    return bytes(written)


def _starts(path: tuple[int, ...]) -> list[bytes]:
    return [b"\0", written_index(path)] if path == (0,) else [written_index(path)]


def _stripped(values: pa.BinaryArray, lengths: np.ndarray) -> pa.BinaryArray:
    """*values* without as many bytes each; null where that is zero."""
    payloads = pa.nulls(len(values), pa.binary())
    for length in np.unique(lengths[lengths > 0]).tolist():
        cut = pc.binary_replace_slice(values, 0, length, b"")
        payloads = pc.if_else(pa.array(lengths == length), cut, payloads)
    return payloads


def _with(decoded: Decoded, rejected: dict[int, tuple[Reason, str]]) -> Decoded:
    """*decoded* with these reasons, for values that were null to it."""
    if not rejected:
        return decoded
    places = pa.array(rejected.keys(), pa.int64())
    where = np.zeros(len(decoded.rows), np.bool_)
    where[places.to_numpy()] = True
    reasons = pa.array([str(reason) for reason, _ in rejected.values()], pa.string())
    messages = pa.array([message for _, message in rejected.values()], pa.string())
    return Decoded(
        decoded.rows,
        pc.replace_with_mask(decoded.reasons, pa.array(where), reasons),
        pc.replace_with_mask(decoded.messages, pa.array(where), messages),
    )
