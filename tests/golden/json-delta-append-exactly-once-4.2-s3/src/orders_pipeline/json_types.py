"""What JSON each column type takes, as types that msgspec judges with.

TINYINT .. BIGINT   a number written without fraction or exponent (``1.0`` is a wrong type)
FLOAT, DOUBLE       any number that does not overflow to infinity
DECIMAL(p, s)       a number, or a string that holds just one; every digit must fit
BOOLEAN, STRING     ``true`` or ``false``; a string
BINARY              a string of base64, padded
DATE                ``"2026-01-31"``
TIMESTAMP           ``"2026-01-31T23:59:59.999999Z"``: RFC 3339, the zone required, a space
                    allowed for the ``T``; digits after the microseconds are rounded
TIMESTAMP_NTZ       the same, a zone not allowed
ARRAY, STRUCT, MAP  an array; an object; an object (string keys only)
"""

import re
from collections.abc import Iterable
from datetime import date, datetime
from decimal import Context, Decimal, Inexact, InvalidOperation
from typing import Annotated, Any

import msgspec
import pyarrow as pa
from msgspec import Meta

from .errors import SettingsError

NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
"""A number as JSON writes it."""

# The first double that rounds to infinity as a 32-bit float: 2**128 - 2**103.
_FLOAT_LIMIT = float(2**128 - 2**103)
_JSON_NAMES = {bool: "bool", str: "str", list: "array", dict: "object", type(None): "null"}


def object_type(fields: Iterable[pa.Field], path: str, *, forbid_unknown: bool) -> Any:
    """The msgspec.Struct that judges a JSON object with these *fields*; attributes ``f0, f1, ..``.

    A field that is not nullable must be there and not be null; any other may be absent or null.

    Raises:
        SettingsError: a field has a type or a name that cannot be read from JSON.
    """
    names = [field.name for field in fields]
    for name in names:
        if names.count(name) > 1:
            raise SettingsError(f"{path}.{name}: the schema names this field twice")
    attributes: list[Any] = []
    for number, field in enumerate(fields):
        kind = json_type(field.type, f"{path}.{field.name}", forbid_unknown=forbid_unknown)
        if field.nullable:
            attributes.append((f"f{number}", kind | None, None))
        else:
            attributes.append((f"f{number}", kind))
    try:
        return msgspec.defstruct(
            "Row",
            attributes,
            rename={f"f{number}": name for number, name in enumerate(names)},
            forbid_unknown_fields=forbid_unknown,
            kw_only=True,
            gc=False,
        )
    except ValueError as error:
        raise SettingsError(f"{path}: {error}") from None


def json_type(kind: pa.DataType, path: str, *, forbid_unknown: bool) -> Any:
    """The type that msgspec judges a value of the Arrow type *kind* with."""
    types = pa.types
    if types.is_signed_integer(kind):
        limit = 2 ** (kind.bit_width - 1)
        return Annotated[int, Meta(ge=-limit, le=limit - 1)]
    if types.is_float32(kind):
        return Annotated[float, Meta(gt=-_FLOAT_LIMIT, lt=_FLOAT_LIMIT)]
    if types.is_decimal128(kind) and kind.scale >= 0:
        return _DecimalType(f"decimal({kind.precision},{kind.scale})", kind)
    if types.is_timestamp(kind) and kind.unit == "us" and kind.tz in (None, "UTC"):
        return Annotated[datetime, Meta(tz=kind.tz is not None)]
    if types.is_list(kind):
        element = kind.value_field
        return list[_item_type(element, f"{path}[...]", forbid_unknown)]  # type: ignore[misc]
    if types.is_map(kind) and types.is_string(kind.key_type):
        value = kind.item_field
        return dict[str, _item_type(value, f"{path}[...]", forbid_unknown)]  # type: ignore[misc]
    if types.is_struct(kind) and not any(b"variant" in (f.metadata or {}) for f in kind):
        return object_type(list(kind), path, forbid_unknown=forbid_unknown)
    if kind in _PLAIN:
        return _PLAIN[kind]
    raise SettingsError(f"{path}: {kind} cannot be read from JSON; use {_instead(kind)}")


_PLAIN = {
    pa.float64(): float,
    pa.bool_(): bool,
    pa.string(): str,
    pa.binary(): bytes,
    pa.date32(): date,
}


def _item_type(field: pa.Field, path: str, forbid_unknown: bool) -> Any:
    kind = json_type(field.type, path, forbid_unknown=forbid_unknown)
    return kind | None if field.nullable else kind


def _instead(kind: pa.DataType) -> str:
    if pa.types.is_map(kind):
        return "a MAP with STRING keys"
    if pa.types.is_duration(kind):
        return "BIGINT and a unit in the field's name"
    if pa.types.is_timestamp(kind):
        return "TIMESTAMP or TIMESTAMP_NTZ, and UTC as the schema's time zone"
    return "STRING"


class _DecimalType(type):
    """A type made for one DECIMAL(p, s); any ``Decimal`` counts as its instance.

    msgspec passes a type it does not know to :func:`judge_decimal`, with the digits as written.
    """

    def __new__(cls, name: str, kind: pa.DataType) -> "_DecimalType":
        made = super().__new__(cls, name, (), {})
        made.unit = Decimal((0, (1,), -kind.scale))
        made.digits = Context(prec=kind.precision, traps=[Inexact, InvalidOperation])
        return made

    def __init__(cls, name: str, kind: pa.DataType) -> None:
        super().__init__(name, (), {})

    unit: Decimal
    digits: Context

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, Decimal)


def judge_decimal(column: Any, value: Any) -> Decimal:
    """*value* with the column's scale, or an error: no digit is ever rounded away."""
    if isinstance(value, str):
        if not NUMBER.fullmatch(value):
            raise ValueError("Invalid decimal string")
    elif isinstance(value, bool) or not isinstance(value, int | Decimal):
        found = _JSON_NAMES[type(value)]
        raise TypeError(f"Expected `{column.__name__}`, got `{found}`")
    try:
        return Decimal(value).quantize(column.unit, context=column.digits)
    except (Inexact, InvalidOperation):
        raise ValueError(f"Number out of range for `{column.__name__}`") from None
