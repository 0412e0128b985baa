"""Which PostgreSQL type holds a column, and how its values get there: as text, by COPY.

Text is what both sides agree on to the last digit, and what PostgreSQL refuses is then a row that
can be named. Names of types are those that ``format_type`` gives.
"""

import re

from psycopg import sql
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from .shapes import AS_JSON

SCALARS: dict[type[DataType], str] = {
    BooleanType: "boolean",
    ByteType: "smallint",
    ShortType: "smallint",
    IntegerType: "integer",
    LongType: "bigint",
    FloatType: "real",
    DoubleType: "double precision",
    StringType: "text",
    BinaryType: "bytea",
    DateType: "date",
    TimestampType: "timestamp with time zone",
    TimestampNTZType: "timestamp without time zone",
}
WIDER = {
    "smallint": ("integer", "bigint", "numeric"),
    "integer": ("bigint", "numeric"),
    "bigint": ("numeric",),
    "real": ("double precision",),
    "numeric": ("numeric",),
    "text": ("character varying", "uuid", "json", "jsonb"),
    "jsonb": ("json",),
}
"""Other types that an existing table may have for one: every value fits, or its row is refused."""


def type_for(kind: DataType) -> str | None:
    """The type of a column: scalars and arrays of them, ``jsonb`` for what nests; None for others.

    Spark's intervals and variants have none.
    """
    if isinstance(kind, DecimalType):
        return f"numeric({kind.precision},{kind.scale})"
    if isinstance(kind, ArrayType):
        element = type_for(kind.elementType)
        nests = element is None or element == "jsonb" or element.endswith("[]")
        return element and ("jsonb" if nests else f"{element}[]")
    if isinstance(kind, (StructType, MapType)):
        inner = [kind.valueType] if isinstance(kind, MapType) else [f.dataType for f in kind]
        return "jsonb" if all(map(type_for, inner)) else None
    return SCALARS.get(type(kind))


def holds(there: str, wanted: str) -> bool:
    """True when a column of the type ``there`` takes the values of one of the type ``wanted``."""
    return there == wanted or _base(there) in (
        name for name in WIDER.get(_base(wanted), ()) if name != "numeric" or there == "numeric"
    )


def as_text(name: str, kind: DataType) -> Column:
    """A column's values as PostgreSQL reads them; null stays null."""
    column = F.col(name)
    if isinstance(kind, BinaryType):
        return F.concat(F.lit("\\x"), F.hex(column))
    if isinstance(kind, (ArrayType, MapType, StructType)):
        return F.to_json(column, AS_JSON)
    return column


def from_text(name: str, there: str) -> sql.Composed:
    """The value of a staged column for one of the type ``there``."""
    staged = sql.Identifier("staged", name)
    if not there.endswith("[]"):
        # Without a length: a cast to one would cut the value, where the insert refuses it.
        return sql.SQL("CAST({} AS {})").format(staged, sql.SQL(_base(there)))
    element = there.removesuffix("[]")
    value = "decode(item, 'base64')" if element == "bytea" else f"CAST(item AS {_base(element)})"
    return sql.SQL(
        "CASE WHEN {staged} IS NOT NULL THEN ARRAY(SELECT {value} FROM "
        "jsonb_array_elements_text({staged}::jsonb) WITH ORDINALITY AS items(item, number) "
        "ORDER BY number) END"
    ).format(staged=staged, value=sql.SQL(value))


def _base(name: str) -> str:
    """A type without its length or precision."""
    return re.sub(r"\([^)]*\)", "", name)
