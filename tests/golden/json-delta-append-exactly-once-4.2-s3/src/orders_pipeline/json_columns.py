"""The columns of judged records, from the objects that msgspec made of them."""

from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from operator import attrgetter
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc


def column(judged: list[Any], number: int, kind: pa.DataType) -> pa.Array:
    """The column of the field *number* from msgspec's objects (``object_type``)."""
    cells = list(map(attrgetter(f"f{number}"), judged))
    if pa.types.is_nested(kind):
        cells = msgspec.to_builtins(cells, builtin_types=(bytes, date, datetime, Decimal))
    return pa.array(cells, kind)


_CALENDAR = pa.array([datetime.min, datetime.max], pa.timestamp("us")).cast(pa.int64()).to_pylist()


def outside_calendar(rows: pa.StructArray) -> list[int]:
    """The rows with a timestamp that its zone's offset moves out of the years Spark can show."""
    if _within_calendar(rows):
        return []
    return [number for number in range(len(rows)) if not _within_calendar(rows.take([number]))]


def _within_calendar(rows: pa.StructArray) -> bool:
    for times in _timestamps(rows):
        bounds = pc.min_max(times.cast(pa.int64()))
        if bounds["min"].is_valid and not (
            _CALENDAR[0] <= bounds["min"].as_py() <= bounds["max"].as_py() <= _CALENDAR[1]
        ):
            return False
    return True


def _timestamps(array: pa.Array) -> Iterator[pa.Array]:
    if pa.types.is_timestamp(array.type):
        yield array
    elif pa.types.is_struct(array.type):
        for number in range(array.type.num_fields):
            yield from _timestamps(array.field(number))
    elif pa.types.is_map(array.type):
        yield from _timestamps(array.items)
    elif pa.types.is_list(array.type):
        yield from _timestamps(array.values)
