"""Which columns a table gets for the fields of a record."""

from collections.abc import Iterable

from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from .shapes import RESERVED


def table_columns(fields: StructType) -> StructType:
    """The columns that hold these fields in a table: same order and types, all nullable.

    A table does not tell ``id`` from ``ID`` and has columns of its own (the coordinates). A field
    whose name is taken, at its own level, gets underscores at its end until it is not: of ``id``
    and ``ID`` the second becomes ``ID_``; a field called ``_offset`` becomes ``_offset_``.
    """
    return _renamed(fields, RESERVED)


def _renamed(fields: Iterable[StructField], reserved: set[str]) -> StructType:
    taken = {name.lower() for name in reserved}
    columns = []
    for field in fields:
        name = field.name
        while name.lower() in taken:
            name += "_"
        taken.add(name.lower())
        columns.append(StructField(name, _nullable(field.dataType)))
    return StructType(columns)


def _nullable(kind: DataType) -> DataType:
    if isinstance(kind, StructType):
        return _renamed(kind, set())
    if isinstance(kind, ArrayType):
        return ArrayType(_nullable(kind.elementType))
    if isinstance(kind, MapType):
        return MapType(kind.keyType, _nullable(kind.valueType))
    return kind
