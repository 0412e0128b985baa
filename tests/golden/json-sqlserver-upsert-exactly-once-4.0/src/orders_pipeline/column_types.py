"""Which SQL Server type holds a column, and how its values get there.

Text, bytes and most numbers go by JDBC as what they are. Dates and timestamps go as text, since
JDBC would read them by the clock and the calendar of the machine that a task happens to run on;
decimals too, and small integers as larger ones: for a null among those Spark names another type
than for a number, and at each change the driver has the server prepare the statement anew.
"""

import re

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
    BooleanType: "bit",
    ByteType: "smallint",
    ShortType: "smallint",
    IntegerType: "int",
    LongType: "bigint",
    FloatType: "real",
    DoubleType: "float",
    StringType: "nvarchar(max)",
    BinaryType: "varbinary(max)",
    DateType: "date",
    # The moment itself, whatever the clocks of those who read it: datetime2 has no zone.
    TimestampType: "datetimeoffset(6)",
    TimestampNTZType: "datetime2(6)",
}
WIDER = {
    "smallint": ("int", "bigint"),
    "int": ("bigint",),
    "real": ("float",),
    "datetimeoffset(6)": ("datetimeoffset(7)",),
    "datetime2(6)": ("datetime2(7)",),
}
"""Other types that an existing table may have for one: every value fits."""
LONGEST_KEY = 450
"""In UTF-16 units: 900 bytes, which is what a clustered index takes."""


def type_for(kind: DataType, is_key: bool = False) -> str | None:
    """The type of a column: JSON in ``nvarchar(max)`` for what nests; None where there is none.

    Spark's intervals and variants have none. A key column has none for bytes, of which SQL Server
    takes two for the same that differ in zero bytes at their ends.
    """
    if isinstance(kind, DecimalType):
        return f"decimal({kind.precision},{kind.scale})"
    if isinstance(kind, (ArrayType, StructType, MapType)):
        inner = [kind.elementType] if isinstance(kind, ArrayType) else _fields(kind)
        return SCALARS[StringType] if all(map(type_for, inner)) and not is_key else None
    if is_key and isinstance(kind, BinaryType):
        return None
    if is_key and isinstance(kind, StringType):
        return f"nvarchar({LONGEST_KEY})"
    return SCALARS.get(type(kind))


def holds(there: str, wanted: str) -> bool:
    """True when a column of the type ``there`` takes the values of one of the type ``wanted``.

    A shorter ``nvarchar`` or ``varbinary`` does: the row that is too long for it is refused.
    """
    if wanted.startswith("decimal"):
        return there.startswith("decimal") and _decimal_holds(there, wanted)
    if wanted.startswith(("nvarchar", "varbinary")):
        return there.split("(")[0] == wanted.split("(")[0]
    return there == wanted or there in WIDER.get(wanted, ())


def staged_type(kind: DataType) -> str:
    """The type of a staged column that is no key of text."""
    if isinstance(kind, (DateType, TimestampType, TimestampNTZType, DecimalType)):
        return "nvarchar(64)"
    if isinstance(kind, (ByteType, ShortType)):
        return "int"
    return str(type_for(kind))


def to_stage(name: str, kind: DataType) -> Column:
    """A column's values as they are staged; null stays null."""
    column = F.col(name)
    if isinstance(kind, TimestampType):
        # The session's zone is UTC.
        return F.date_format(column, "yyyy-MM-dd'T'HH:mm:ss.SSSSSS'+00:00'")
    if isinstance(kind, TimestampNTZType):
        return F.date_format(column, "yyyy-MM-dd'T'HH:mm:ss.SSSSSS")
    if isinstance(kind, DateType):
        return column.cast("string")
    if isinstance(kind, DecimalType):
        # Not a cast, which writes 0E-18 where Spark's ANSI mode is off.
        return F.regexp_replace(F.format_number(column, kind.scale), ",", "")
    if isinstance(kind, (ByteType, ShortType)):
        return column.cast("int")
    if isinstance(kind, (ArrayType, MapType, StructType)):
        return F.to_json(column, AS_JSON)
    return column


def from_staged(staged: str, there: str) -> str:
    """The value of a staged column for one of the type ``there``."""
    # Without a cast elsewhere: one to nvarchar(3) would cut what the insert refuses.
    return f"CAST({staged} AS {there})" if there.startswith(("date", "decimal")) else staged


def length_of(there: str) -> int | None:
    """How long a value of the type may be, in its own units; None for ``max`` and for others."""
    found = re.fullmatch(r"n?var\w+\((\d+)\)", there)
    return int(found[1]) if found else None


def _fields(kind: StructType | MapType) -> list[DataType]:
    return [kind.valueType] if isinstance(kind, MapType) else [field.dataType for field in kind]


def _decimal_holds(there: str, wanted: str) -> bool:
    """True when there are no fewer digits before the point, and no fewer after it."""
    (digits, scale), (our_digits, our_scale) = (
        map(int, re.findall(r"\d+", kind)) for kind in (there, wanted)
    )
    return scale >= our_scale and digits - scale >= our_digits - our_scale
