"""Rows that no record may have: written out again they give the same bytes, but were read wrongly.

ptars keeps every member of a oneof, every entry of a map and no value of an entry without one,
where Protobuf keeps the last member, the last entry of a key and an empty message.
"""

from collections.abc import Callable
from functools import partial

import numpy as np
import pyarrow as pa
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from .flags import Flags, any_within, flags
from .protobuf_plain import by_number, choices
from .protobuf_types import JSON, map_parts

Doubt = Callable[[pa.Array], Flags]


def record_doubt(message: Descriptor) -> Doubt | None:
    """Marks the plain rows of *message* to read again; None where there can be none."""
    order = by_number(message)
    places = {field.name: f"f{place}" for place, field in enumerate(order)}
    members = [[places[field.name] for field in oneof.fields] for oneof in choices(message)]
    parts = [(places[f.name], found) for f in order if (found := _field_doubt(f))]
    if not members and not parts:
        return None

    def doubt(plain: pa.StructArray) -> Flags:
        found = np.zeros(len(plain), np.bool_)
        for group in members:
            set_ones = sum(flags(plain.field(place).is_valid()).astype(np.int32) for place in group)
            found |= np.asarray(set_ones) > 1
        for place, inner in parts:
            found |= inner(plain.field(place))
        return found & flags(plain.is_valid())

    return doubt


def _field_doubt(field: FieldDescriptor) -> Doubt | None:
    if parts := map_parts(field):
        return partial(_map_doubt, _value_doubt(parts[1]))
    inner = _value_doubt(field)
    if inner is not None and field.is_repeated:
        return lambda plain: any_within(plain, inner(plain.values))
    return inner


def _value_doubt(field: FieldDescriptor) -> Doubt | None:
    kind = field.message_type
    return None if kind is None or kind.full_name in JSON else record_doubt(kind)


def _map_doubt(inner: Doubt | None, plain: pa.MapArray) -> Flags:
    found = _has_key_twice(plain)
    if plain.items.null_count:
        found |= any_within(plain, flags(plain.items.is_null()))
    if inner is not None:
        found |= any_within(plain, inner(plain.items))
    return found


def _has_key_twice(plain: pa.MapArray) -> Flags:
    sizes = np.diff(plain.offsets.to_numpy())
    owners = np.repeat(np.arange(len(plain)), sizes)
    entries = pa.table({"owner": owners, "key": plain.keys})
    owners_of_keys = entries.group_by(["owner", "key"]).aggregate([]).column("owner")
    return np.asarray(np.bincount(owners_of_keys.to_numpy(), minlength=len(plain)) < sizes)
