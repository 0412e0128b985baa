"""JSON values to rows: every record is judged, and comes out as a row or with a reason."""

import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Literal, NamedTuple

import msgspec
import pyarrow as pa

from .json_columns import column, outside_calendar
from .json_types import judge_decimal, object_type
from .reasons import Reason


class Decoded(NamedTuple):
    """What became of each value, in the values' order; all three have the values' length."""

    rows: pa.StructArray
    """The schema's fields, as the schema types them; null where rejected or the value is null."""
    reasons: pa.StringArray
    """A :class:`Reason`; null where accepted or the value is null."""
    messages: pa.StringArray
    """What is wrong and where, without any of the value's data; null where the reason is."""


def decode_values(
    values: pa.BinaryArray, schema: pa.Schema, unknown_fields: Literal["ignore", "reject"]
) -> Decoded:
    """Decodes *values* alone; many batches should share one :func:`make_decoder`."""
    return make_decoder(schema, unknown_fields)(values)


def make_decoder(
    schema: pa.Schema, unknown_fields: Literal["ignore", "reject"]
) -> Callable[[pa.BinaryArray], Decoded]:
    """A decoder for JSON objects with the fields of *schema* (``json_types.py``, type by type).

    A field that is not nullable is required. No value is coerced, rounded or left out quietly,
    except a timestamp's digits after the microseconds. Of a name given twice the last one counts.

    Raises:
        SettingsError: a field of the schema cannot be read from JSON.
    """
    row_type = object_type(schema, "$", forbid_unknown=unknown_fields == "reject")
    judge = msgspec.json.Decoder(row_type, dec_hook=judge_decimal, float_hook=Decimal).decode

    def decode(values: pa.BinaryArray) -> Decoded:
        texts = values.to_pylist()
        judged: list[Any] = []
        rejected: dict[int, tuple[Reason, str]] = {}
        for position, text in enumerate(texts):
            if text is None:
                continue
            try:
                if not text.isascii():
                    text.decode()  # msgspec does not look into what it skips
                judged.append(judge(text))
            except _VERDICTS as error:
                rejected[position] = _explained(text, error)
        kept = [n for n, text in enumerate(texts) if text is not None and n not in rejected]
        columns = [column(judged, at, field.type) for at, field in enumerate(schema)]
        rows = pa.StructArray.from_arrays(columns, fields=list(schema))
        for number in outside_calendar(rows):
            rejected[kept[number]] = (Reason.OUT_OF_RANGE, "Timestamp outside the years 1 to 9999")
        return _in_order(rows, kept, rejected, len(texts))

    return decode


def _in_order(
    rows: pa.StructArray, kept: list[int], rejected: dict[int, tuple[Reason, str]], length: int
) -> Decoded:
    """*rows* back at the positions *kept* of their values, the reasons at theirs."""
    if not rejected and len(kept) == length:
        return Decoded(rows, pa.nulls(length, pa.string()), pa.nulls(length, pa.string()))
    sources: list[int | None] = [None] * length
    for number, position in enumerate(kept):
        if position not in rejected:
            sources[position] = number
    verdicts = [rejected.get(position, (None, None)) for position in range(length)]
    return Decoded(
        rows.take(pa.array(sources, pa.int64())),
        pa.array([reason for reason, _ in verdicts], pa.string()),
        pa.array([message for _, message in verdicts], pa.string()),
    )


# All that msgspec and judge_decimal raise for a record; anything else is a fault of the program.
_VERDICTS = (msgspec.MsgspecError, ValueError, ArithmeticError, RecursionError)

_REASONS = (
    (re.compile(r"Object missing required field "), Reason.MISSING_FIELD),
    (re.compile(r"Object contains unknown field "), Reason.UNKNOWN_FIELD),
    (re.compile(r"Expected `[^`]*`, got `null` - at "), Reason.MISSING_FIELD),
    (re.compile(r"Expected `\w+` [<>]|Number out of range|Integer value out"), Reason.OUT_OF_RANGE),
)
_UNKNOWN_FIELD = re.compile(r"(Object contains unknown field `)(.*)(`(?: - at `\$.*`)?)", re.DOTALL)


def _explained(text: bytes, error: Exception) -> tuple[Reason, str]:
    """Why *text* was rejected; of msgspec's words only an unknown field's name comes from it."""
    if isinstance(error, msgspec.ValidationError):
        message = str(error)
        for words, reason in _REASONS:
            if words.match(message):
                return reason, _UNKNOWN_FIELD.sub(_shortened, message)
        return Reason.WRONG_TYPE, message
    if isinstance(error, ArithmeticError):
        return Reason.OUT_OF_RANGE, "Number out of range"
    return Reason.UNDECODABLE, _damage(text, error)


def _damage(text: bytes, error: Exception) -> str:
    if not text:
        return "The value is empty: zero bytes"
    if text.startswith(b"\xef\xbb\xbf"):
        return "The value starts with a byte order mark"
    if isinstance(error, UnicodeDecodeError):
        return "The value is not UTF-8"
    if isinstance(error, RecursionError):
        return "The value is nested too deeply"
    return str(error)


def _shortened(found: re.Match[str]) -> str:
    name = "".join(letter if letter.isprintable() else "?" for letter in found[2][:100])
    return found[1] + name + found[3]
