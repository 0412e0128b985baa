"""What column each Protobuf field becomes.

int32, sint32, sfixed32     INT; the 64-bit ones BIGINT
uint32, fixed32             BIGINT; the 64-bit ones DECIMAL(20, 0)
float, double, bool         FLOAT, DOUBLE, BOOLEAN
string, bytes               STRING, BINARY
an enum                     STRING: the value's name; a number that the enum does not have as its
                            digits (Protobuf's own JSON does the same; no name starts with a digit)
a message, Any              STRUCT; a message without fields BOOLEAN: true where it is there
repeated, map               ARRAY, MAP
google.protobuf.Timestamp   TIMESTAMP; digits after the microseconds are cut off
google.protobuf.Duration    BIGINT: microseconds, further digits cut off
google.protobuf.*Value      as the scalar that it wraps
Struct, Value, ListValue    STRING: JSON, keys in order

A field that can be told absent (``optional``, a oneof's, a message, any of proto2) is null when it
is; a proto3 scalar without ``optional`` has its default instead, and proto2 defaults are not used.
A proto2 ``required`` field is never null: without it a record is rejected.
"""

import pyarrow as pa
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from .errors import SettingsError
from .protobuf_files import find_message

TIMESTAMP = "google.protobuf.Timestamp"
DURATION = "google.protobuf.Duration"
JSON = {f"google.protobuf.{name}" for name in ("Struct", "Value", "ListValue")}
WRAPPERS = {
    f"google.protobuf.{kind}Value"
    for kind in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
}
# ptars has a table as long as a message's highest field number, for every batch.
_HIGHEST_NUMBER = 1_000_000

_SCALARS = {
    FieldDescriptor.TYPE_INT32: pa.int32(),
    FieldDescriptor.TYPE_SINT32: pa.int32(),
    FieldDescriptor.TYPE_SFIXED32: pa.int32(),
    FieldDescriptor.TYPE_INT64: pa.int64(),
    FieldDescriptor.TYPE_SINT64: pa.int64(),
    FieldDescriptor.TYPE_SFIXED64: pa.int64(),
    FieldDescriptor.TYPE_UINT32: pa.int64(),
    FieldDescriptor.TYPE_FIXED32: pa.int64(),
    FieldDescriptor.TYPE_UINT64: pa.decimal128(20, 0),
    FieldDescriptor.TYPE_FIXED64: pa.decimal128(20, 0),
    FieldDescriptor.TYPE_FLOAT: pa.float32(),
    FieldDescriptor.TYPE_DOUBLE: pa.float64(),
    FieldDescriptor.TYPE_BOOL: pa.bool_(),
    FieldDescriptor.TYPE_STRING: pa.string(),
    FieldDescriptor.TYPE_BYTES: pa.binary(),
    FieldDescriptor.TYPE_ENUM: pa.string(),
}


def arrow_fields(descriptor_set: bytes, message: str) -> pa.Schema:
    """The columns of the records, known before any record is: the decoder's rows have this type.

    Raises:
        SettingsError: no such message, or it has a field that cannot become a column.
    """
    return pa.schema(list(struct_type(find_message(descriptor_set, message))))


def struct_type(message: Descriptor, outer: tuple[Descriptor, ...] = ()) -> pa.StructType:
    """The columns of *message*, which lies within the messages *outer*."""
    if message in outer:
        raise SettingsError(
            f"{message.full_name} contains itself, and a table cannot nest without end. Have the "
            "producer send an id, or bytes, in its place, or leave the field out of the schema"
        )
    if not message.fields:
        raise SettingsError(f"{message.full_name} has no fields, so there would be no column")
    within = (*outer, message)
    return pa.struct([pa.field(f.name, _type(f, within), _is_nullable(f)) for f in message.fields])


def map_parts(field: FieldDescriptor) -> tuple[FieldDescriptor, FieldDescriptor] | None:
    """The key and the value of *field*, if it is declared as a map."""
    kind = field.message_type
    if kind is None or not kind.GetOptions().map_entry:
        return None
    return kind.fields_by_name["key"], kind.fields_by_name["value"]


def _is_nullable(field: FieldDescriptor) -> bool:
    return field.has_presence and not field.is_required


def _type(field: FieldDescriptor, outer: tuple[Descriptor, ...]) -> pa.DataType:
    if parts := map_parts(field):
        key, value = parts
        item = pa.field("value", _singular(value, outer), nullable=False)
        return pa.map_(_singular(key, outer), item)
    if field.is_repeated:
        return pa.list_(pa.field("element", _singular(field, outer), nullable=False))
    return _singular(field, outer)


def _singular(field: FieldDescriptor, outer: tuple[Descriptor, ...]) -> pa.DataType:
    if field.number > _HIGHEST_NUMBER:
        raise SettingsError(
            f"{field.full_name} has the number {field.number}. Numbers up to {_HIGHEST_NUMBER} can "
            "be read: leave the field out of the schema"
        )
    if field.type == FieldDescriptor.TYPE_GROUP:
        raise SettingsError(f"{field.full_name} is a group, which cannot be read: use a message")
    kind = field.message_type
    if kind is None:
        return _SCALARS[field.type]
    if kind.full_name == TIMESTAMP:
        return pa.timestamp("us", tz="UTC")
    if kind.full_name == DURATION:
        return pa.int64()
    if kind.full_name in JSON:
        return pa.string()
    if kind.full_name in WRAPPERS:
        return _SCALARS[kind.fields[0].type]
    if not kind.fields:
        return pa.bool_()
    return struct_type(kind, outer)
