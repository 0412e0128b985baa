"""Text to the value of a key column: exactly, or not at all.

INT, BIGINT    a number written without fraction or exponent (``1.0`` is a wrong type)
FLOAT, DOUBLE  any number that does not overflow to infinity
DECIMAL(p, s)  a number without exponent; every digit must fit
BOOLEAN        ``true`` or ``false``
BINARY         base64, padded
DATE           ``2026-01-31``
TIMESTAMP      ``2026-01-31T23:59:59.999999Z``: the zone required, a space allowed for the ``T``
TIMESTAMP_NTZ  the same, a zone not allowed
"""

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    TimestampNTZType,
    TimestampType,
)

from .avro import verdict
from .errors import SettingsError
from .reasons import Reason

_DAY = r"(?!0000)[0-9]{4}-[0-9]{2}-[0-9]{2}"
_MOMENT = _DAY + r"[T ][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?"
_WHOLE = r"-?(0|[1-9][0-9]*)"
_PATTERNS: dict[type[DataType], str] = {
    IntegerType: _WHOLE,
    LongType: _WHOLE,
    FloatType: _WHOLE + r"(\.[0-9]+)?([eE][+-]?[0-9]+)?",
    DoubleType: _WHOLE + r"(\.[0-9]+)?([eE][+-]?[0-9]+)?",
    DecimalType: _WHOLE + r"(\.[0-9]+)?",
    BooleanType: "true|false",
    StringType: r"(?s).*",
    BinaryType: r"([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?",
    DateType: _DAY,
    TimestampType: _MOMENT + r"(Z|[+-][0-9]{2}:[0-9]{2})",
    TimestampNTZType: _MOMENT,
}
_NUMBERS = (IntegerType, LongType, FloatType, DoubleType, DecimalType)


def check_kind(field: StructField) -> None:
    """Raises a SettingsError for a column whose value no text stands for."""
    if type(field.dataType) not in _PATTERNS:
        raise SettingsError(
            f"The key column {field.name!r} is {field.dataType.simpleString()}, which a string or "
            "JSON key cannot hold; use the key format avro"
        )


def text_value(text: Column, kind: DataType) -> Column:
    """The value that *text* stands for; null where it stands for none."""
    if isinstance(kind, BinaryType):
        return F.when(_fits(text, kind), F.unbase64(text))
    value = text.try_cast(kind)
    if isinstance(kind, FloatType | DoubleType):
        value = F.when(F.abs(value) != F.lit(float("inf")), value)
    if isinstance(kind, DecimalType):
        digits = F.regexp_replace(text, r"(\.[0-9]*?)0+\z", "$1")
        too_many = r"\.[0-9]{" + str(kind.scale + 1) + "}"
        value = F.when(~digits.rlike(too_many), value)
    return F.when(_fits(text, kind), value)


def text_fault(text: Column, field: StructField, place: str) -> Column:
    """STRUCT<reason, message>: why *text* gives no value; null where it gives one."""
    kind = field.dataType
    expected = f"Expected `{kind.simpleString()}`"
    unfit = Reason.OUT_OF_RANGE if isinstance(kind, _NUMBERS) else Reason.WRONG_TYPE
    return F.when(
        ~_fits(text, kind), verdict(Reason.WRONG_TYPE, f"{expected}, got other text - at {place}")
    ).when(
        text_value(text, kind).isNull(), verdict(unfit, f"Out of range for {expected} - at {place}")
    )


def parsed_json(text: Column) -> Column:
    """VARIANT: what *text* is as JSON; null where it is none, or is followed by anything.

    Spark's parser stops at the end of the first value, so it is given one that holds *text*.
    """
    both = F.try_parse_json(F.concat(F.lit("["), text, F.lit(',"end"]')))
    is_whole = F.try_variant_get(both, "$[1]", "string") == "end"
    return F.when(is_whole, F.try_variant_get(both, "$[0]", "variant"))


def json_text(whole: Column, name: str) -> Column:
    """The text of a field of JSON objects (VARIANT): a string's own, a number as written."""
    return F.try_variant_get(whole, f"$.{name}", "string")


def json_fault(whole: Column, field: StructField, text: Column) -> Column:
    """STRUCT<reason, message>: why a JSON object gives no value for a field; null if it does."""
    kind, place = field.dataType, f"$.{field.name}"
    found = F.schema_of_variant(F.try_variant_get(whole, place, "variant"))
    if isinstance(kind, DecimalType):
        right = "(BIGINT|DECIMAL|STRING).*"
    elif isinstance(kind, _NUMBERS):
        right = "(BIGINT|DECIMAL|FLOAT|DOUBLE).*"
    else:
        right = "BOOLEAN" if isinstance(kind, BooleanType) else "STRING"
    wrong = ~found.rlike(rf"\A({right})\z")
    if isinstance(kind, IntegerType | LongType):
        # A VARIANT has 42.0 as the decimal 42; a whole number is one only where it is too large.
        wrong |= found.startswith("DECIMAL") & text.try_cast("bigint").isNotNull()
    expected = f"Expected `{kind.simpleString()}`"
    return (
        F.when(
            ~F.schema_of_variant(whole).startswith("OBJECT"),
            verdict(Reason.WRONG_TYPE, "Expected `object`, got another type"),
        )
        .when(
            found.isNull() | (found == "VOID"),
            verdict(Reason.MISSING_FIELD, f"{expected}, got nothing - at {place}"),
        )
        .when(wrong, verdict(Reason.WRONG_TYPE, f"{expected}, got another type - at {place}"))
        .otherwise(text_fault(text, field, place))
    )


def _fits(text: Column, kind: DataType) -> Column:
    return text.rlike(rf"\A({_PATTERNS[type(kind)]})\z")
