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
LENGTH = re.compile(r"character varying\((\d+)\)")


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


def unfit(rows: StructType, there: dict[str, str]) -> Column:
    """Why a row cannot be copied, in words that have nothing of it in them; null where it can.

    ``there`` are the table's columns. Also what would arrive as another value: a cast to a length
    cuts spaces, and Arrow wraps years. What lies deeper, as JSON's ``\\u0000``, passes a COPY, and
    the table refuses it.
    """
    why: Column = F.lit(None).cast("string")
    for field in rows:
        column, name = F.col(quoted(field.name)), field.name
        if isinstance(field.dataType, StringType):
            if length := LENGTH.fullmatch(there.get(name, "")):
                is_long = F.char_length(column) > int(length[1])
                why = F.when(is_long, f"{name} has more than {length[1]} characters").otherwise(why)
            has_nul = F.contains(column, F.lit("\0"))
            why = F.when(has_nul, f"{name} holds a NUL character").otherwise(why)
            why = F.when(~F.is_valid_utf8(column), f"{name} is not UTF-8").otherwise(why)
        if isinstance(field.dataType, (DateType, TimestampType, TimestampNTZType)):
            beyond = ~F.year(column).between(1, 9999)
            why = F.when(beyond, f"{name} is not of the years 1 to 9999").otherwise(why)
    return why


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


def quoted(name: str) -> str:
    """A column's name as Spark reads it, whatever it holds."""
    return "`" + name.replace("`", "``") + "`"


def _base(name: str) -> str:
    """A type without its length or precision."""
    return re.sub(r"\([^)]*\)", "", name)
