"""The Protobuf message of an output topic's values: its subject's newest, a field for each column.

BOOLEAN, INT, BIGINT    bool, int32 (TINYINT, SMALLINT too), int64
FLOAT, DOUBLE           float, double
STRING, BINARY          string, bytes
TIMESTAMP               google.protobuf.Timestamp
DECIMAL, DATE, TIMESTAMP_NTZ    string, as Spark writes them: Protobuf has nothing of their kind
ARRAY, MAP, STRUCT      repeated, map (by BOOLEAN, INT, BIGINT or STRING), a message within

A field that is added is optional and has a number that none had before. So a schema that has more
of them reads what was written with one that has fewer, and the reverse, and a column may go again:
its field stays. Fields are added to the text, of which all else stays as it is, comments too.
"""

import re
from collections.abc import Iterator

from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto
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
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from .errors import RefusedError
from .output_text import ProtoText, compiled, message_of

_NAMES: dict[type[DataType], str] = {
    BooleanType: "bool",
    IntegerType: "int32",
    LongType: "int64",
    FloatType: "float",
    DoubleType: "double",
    StringType: "string",
    BinaryType: "bytes",
    TimestampType: "google.protobuf.Timestamp",
}
_KEYS = (BooleanType, IntegerType, LongType, StringType)


def schema_of(columns: StructType, newest: str | None, name: str) -> str:
    """The text whose first message is for rows with these *columns*.

    It is *newest* itself, if its first message has a field for each column. ``name`` is the
    message's, where there is no version yet.

    Raises:
        RefusedError: a column has no form in Protobuf, or another in *newest*; two names are one to
            Protobuf; or *newest* requires a field without a column, or is of an edition.
    """
    text = ProtoText(newest if newest else f'syntax = "proto3";\n\nmessage {name} ' + "{\n}\n")
    _extend(text, text.first, wire_row(columns))
    schema = text.edited()
    file = compiled(schema)
    if file.syntax == "editions":
        raise RefusedError(
            "The schema of the output topic is of an edition, which ptars does not write. Nothing "
            "was written. Register it as proto3"
        )
    message_of(file)
    if file.syntax == "proto3":
        for message in ProtoText(schema).messages.values():
            _refuse_names_alike(message)
    return schema


def _refuse_names_alike(message: DescriptorProto) -> None:
    """Proto3 takes names that differ in case and _ alone for one: ptars panics, protoc does not."""
    held: dict[str, str] = {}
    for field in message.field:
        other = held.setdefault(field.name.replace("_", "").lower(), field.name)
        if other != field.name:
            raise RefusedError(
                f"The fields {other} and {field.name} of {message.name} differ in case and _ "
                "alone, which Protobuf takes for one name. Nothing was written. Rename the column "
                "in transform.py, or the field in the schema that was registered"
            )


def wire_row(columns: StructType) -> StructType:
    """What a row is cast to, so that each of its parts has a type of Protobuf's."""
    return StructType([StructField(c.name, _wire_type(c.dataType)) for c in columns])


def _wire_type(column: DataType) -> DataType:
    if isinstance(column, DecimalType | DateType | TimestampNTZType):
        return StringType()
    if isinstance(column, ByteType | ShortType):
        return IntegerType()
    if isinstance(column, ArrayType):
        return ArrayType(_wire_type(column.elementType))
    if isinstance(column, MapType):
        return MapType(_wire_type(column.keyType), _wire_type(column.valueType))
    if isinstance(column, StructType):
        return wire_row(column)
    return column


def _extend(text: ProtoText, name: str, columns: StructType) -> None:
    """Gives the message called *name*, and those within it, a field for each column."""
    message = text.messages[name]
    held = {field.name: field for field in message.field}
    _refuse_unfilled(message, columns.fieldNames())
    number = _highest_number(message)
    for column in columns:
        if column.name in held:
            _compare(text, held[column.name], column.dataType)
        else:
            number += 1
            text.add(name, _declared(column.name, column.dataType, number))


def _refuse_unfilled(message: DescriptorProto, columns: list[str]) -> None:
    """Proto2's readers take no record that lacks a required field."""
    for field in message.field:
        if field.label == FieldDescriptorProto.LABEL_REQUIRED and field.name not in columns:
            raise RefusedError(
                f"The schema of the output topic requires {field.name}, for which there is no "
                "column. Nothing was written. Make one in transform.py"
            )


def _compare(text: ProtoText, field: FieldDescriptorProto, column: DataType) -> None:
    """A field that is there has to be as it would be if it were added."""
    inner = text.messages.get(field.type_name)
    entry = inner if inner and inner.options.map_entry else None
    is_list = field.label == FieldDescriptorProto.LABEL_REPEATED and not entry
    one = column.elementType if isinstance(column, ArrayType) else column
    held = field.type_name[1:] or FieldDescriptorProto.Type.Name(field.type)[5:].lower()
    if entry and isinstance(column, MapType):
        _compare(text, entry.field[0], column.keyType)
        _compare(text, entry.field[1], column.valueType)
    elif inner and not entry and isinstance(one, StructType) and is_list == (one is not column):
        _extend(text, field.type_name, one)
    elif _NAMES.get(type(one)) != held or is_list != (one is not column):
        raise RefusedError(
            f"The column {field.name} is {column.simpleString()}, and the schema of the output "
            "topic has another type for it. Nothing was written. Change it in transform.py, or "
            "give the column another name there"
        )


def _declared(name: str, column: DataType, number: int) -> Iterator[str]:
    """The lines that declare a field, and the message that it may need."""
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        raise RefusedError(
            f"The column {name!r} cannot be a field in Protobuf, whose names are letters, digits "
            "and _, no digit first. Nothing was written. Rename it in transform.py"
        )
    one = column.elementType if isinstance(column, ArrayType) else column
    one = one.valueType if isinstance(one, MapType) and one is column else one
    kind = _NAMES.get(type(one))
    if isinstance(one, StructType):
        kind = "".join(part[:1].upper() + part[1:] for part in name.split("_")) + "Value"
        yield f"message {kind} " + "{"
        for place, inner in enumerate(one, 1):
            yield from (f"  {line}" for line in _declared(inner.name, inner.dataType, place))
        yield "}"
    if kind is None or (isinstance(column, MapType) and not isinstance(column.keyType, _KEYS)):
        raise RefusedError(
            f"The column {name} is {column.simpleString()}, which has no form in Protobuf. Nothing "
            "was written. Make another type of it in transform.py"
        )
    if isinstance(column, MapType):
        yield f"map<{_NAMES[type(column.keyType)]}, {kind}> {name} = {number};"
    else:
        label = "repeated" if isinstance(column, ArrayType) else "optional"
        yield f"{label} {kind} {name} = {number};"


def _highest_number(message: DescriptorProto) -> int:
    taken = [field.number for field in message.field]
    taken += [each.end - 1 for each in message.reserved_range]
    taken += [each.end - 1 for each in message.extension_range]
    return max(taken, default=0)
