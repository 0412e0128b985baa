"""A record's columns from its plain ones (``protobuf_plain.py``), and what is wrong in them."""

from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from google.protobuf.message_factory import GetMessageClass

from .flags import any_within, flags
from .protobuf_plain import by_number
from .protobuf_types import DURATION, JSON, TIMESTAMP, WRAPPERS, map_parts, struct_type
from .protobuf_values import Column, Fault, duration_column, json_column, timestamp_column
from .reasons import Reason


def record_column(message: Descriptor, path: str = "$") -> Column:
    """Makes rows of the type ``struct_type(message)``."""
    fields = list(struct_type(message))
    places = {field.name: place for place, field in enumerate(by_number(message))}
    parts = [(field, f"{path}.{field.name}", f"f{places[field.name]}") for field in message.fields]
    converters = [_field_column(field, name) for field, name, _ in parts]

    def column(plain: pa.StructArray) -> tuple[pa.Array, list[Fault]]:
        made: list[pa.Array] = []
        faults: list[Fault] = []
        for (field, name, place), convert in zip(parts, converters, strict=True):
            values = plain.field(place)
            converted, found = convert(values)
            made.append(converted)
            faults += found
            if field.is_required and values.null_count:
                words = f"Message missing required field - at `{name}`"
                faults.append(Fault(flags(values.is_null()), Reason.MISSING_FIELD, words))
        if plain.null_count:
            here = flags(plain.is_valid())
            faults = [fault._replace(at=fault.at & here) for fault in faults]
        mask = plain.is_null() if plain.null_count else None
        rows = pa.StructArray.from_arrays(made, fields=fields, mask=mask)
        return rows, [fault for fault in faults if fault.at.any()]

    return column


def _field_column(field: FieldDescriptor, path: str) -> Column:
    if parts := map_parts(field):
        key, value = parts
        return partial(_map_column, _value_column(key, path), _value_column(value, f"{path}[...]"))
    if field.is_repeated:
        return partial(_list_column, _value_column(field, f"{path}[...]"))
    return _value_column(field, path)


def _list_column(convert: Column, plain: pa.ListArray) -> tuple[pa.Array, list[Fault]]:
    values, faults = convert(plain.values)
    kind = pa.list_(pa.field("element", values.type, nullable=False))
    lists = pa.ListArray.from_arrays(plain.offsets, values, type=kind)
    return lists, [fault._replace(at=any_within(plain, fault.at)) for fault in faults]


def _map_column(
    convert_key: Column, convert_value: Column, plain: pa.MapArray
) -> tuple[pa.Array, list[Fault]]:
    keys, _ = convert_key(plain.keys)
    values, faults = convert_value(plain.items)
    kind = pa.map_(keys.type, pa.field("value", values.type, nullable=False))
    maps = pa.MapArray.from_arrays(plain.offsets, keys, values, type=kind)
    return maps, [fault._replace(at=any_within(plain, fault.at)) for fault in faults]


def _value_column(field: FieldDescriptor, path: str) -> Column:
    """The column of single values of *field*: its own, a list's or a map's."""
    kind = field.message_type
    if field.enum_type is not None:
        return _enum_column(field.enum_type)
    if kind is None:
        target = {pa.uint32(): pa.int64(), pa.uint64(): pa.decimal128(20, 0)}
        return lambda plain: (plain.cast(target.get(plain.type, plain.type)), [])
    if kind.full_name == TIMESTAMP:
        return partial(timestamp_column, path)
    if kind.full_name == DURATION:
        return partial(duration_column, path)
    if kind.full_name in WRAPPERS:
        wrapped = _value_column(kind.fields[0], path)
        return lambda plain: wrapped(plain.flatten()[0])
    if kind.full_name in JSON:
        return partial(json_column, path, GetMessageClass(kind).FromString)
    if not kind.fields:
        return lambda plain: (_true_where_valid(plain), [])
    return record_column(kind, path)


def _true_where_valid(plain: pa.Array) -> pa.Array:
    return pc.if_else(plain.is_valid(), True, pa.scalar(None, pa.bool_()))


def _enum_column(kind: EnumDescriptor) -> Column:
    by_value = {value.number: value.name for value in reversed(kind.values)}  # an alias: the first
    known, names = pa.array(by_value.keys(), pa.int32()), pa.array(by_value.values(), pa.string())

    def column(plain: pa.Array) -> tuple[pa.Array, list[Fault]]:
        named = names.take(pc.index_in(plain, value_set=known))
        if named.null_count != plain.null_count:
            named = pc.coalesce(named, plain.cast(pa.string()))
        return named, []

    return column
