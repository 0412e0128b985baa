"""Flags: true or false for each element of an Arrow array, in numpy."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Flags = npt.NDArray[np.bool_]


def flags(array: pa.BooleanArray) -> Flags:
    """*array*, which has no null, in numpy."""
    return np.asarray(array.to_numpy(zero_copy_only=False), np.bool_)


def any_within(lists: pa.ListArray, flagged: Flags) -> Flags:
    """Of each of *lists* (or maps) whether one of its elements is flagged."""
    before = np.concatenate([[0], np.cumsum(flagged)])
    offsets = lists.offsets.to_numpy()
    return np.asarray(before[offsets[1:]] > before[offsets[:-1]], np.bool_)
