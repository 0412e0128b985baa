"""Protobuf values to rows: every record is judged, and comes out as a row or with a reason."""

from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .protobuf_columns import record_column
from .protobuf_engine import make_reader
from .protobuf_files import find_message


class Decoded(NamedTuple):
    """What became of each value, in the values' order; all three have the values' length."""

    rows: pa.StructArray
    """The columns of ``arrow_fields``; null where rejected or the value is null."""
    reasons: pa.StringArray
    """A :class:`Reason`; null where accepted or the value is null."""
    messages: pa.StringArray
    """What is wrong and where, without any of the value's data; null where the reason is."""


def decode_values(
    values: pa.BinaryArray,
    descriptor_set: bytes,
    message: str,
    unknown_fields: Literal["ignore", "reject"],
) -> Decoded:
    """Decodes *values* alone; many batches should share one :func:`make_decoder`."""
    return make_decoder(descriptor_set, message, unknown_fields)(values)


def make_decoder(
    descriptor_set: bytes, message: str, unknown_fields: Literal["ignore", "reject"]
) -> Callable[[pa.BinaryArray], Decoded]:
    """A decoder for the *message* (full name) of a serialized ``FileDescriptorSet``.

    ``protobuf_types.py`` says what each field becomes. An empty value is a record with nothing but
    defaults. A field of the schema in another wire type is rejected, not taken for an unknown one.

    Raises:
        SettingsError: no such message, or it has a field that cannot become a column.
    """
    source = find_message(descriptor_set, message)
    convert = record_column(source)
    read = make_reader(source, forbid_unknown=unknown_fields == "reject")

    def decode(values: pa.BinaryArray) -> Decoded:
        plain, rejected = read(values)
        rows, faults = convert(plain)
        for fault in faults:
            for position in np.flatnonzero(fault.at).tolist():
                rejected.setdefault(position, (fault.reason, fault.message))
        if not rejected:
            nothing = pa.nulls(len(values), pa.string())
            return Decoded(rows, nothing, nothing)
        verdicts = [rejected.get(position, (None, None)) for position in range(len(values))]
        reasons = pa.array([reason for reason, _ in verdicts], pa.string())
        messages = pa.array([message for _, message in verdicts], pa.string())
        return Decoded(_without(rows, reasons.is_valid()), reasons, messages)

    return decode


def _without(rows: pa.StructArray, rejected: pa.BooleanArray) -> pa.StructArray:
    """*rows*, null where ``rejected`` as well."""
    columns = [rows.field(number) for number in range(rows.type.num_fields)]
    gone = pc.or_(rows.is_null(), rejected)
    return pa.StructArray.from_arrays(columns, fields=list(rows.type), mask=gone)
