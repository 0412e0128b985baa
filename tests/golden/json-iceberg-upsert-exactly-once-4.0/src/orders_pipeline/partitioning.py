"""How a table is partitioned: by columns, and by Iceberg's transforms of them.

A reader filters by the column, and need not know the transform.
"""

import re
from dataclasses import dataclass

from pyspark.sql.types import (
    BinaryType,
    DataType,
    DateType,
    DecimalType,
    IntegralType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from .errors import SettingsError
from .settings import Topic

TIMES = (TimestampType, TimestampNTZType)
TEXTS = (StringType, BinaryType)
TAKES: dict[str, tuple[type[DataType], ...]] = {
    "years": (DateType, *TIMES),
    "months": (DateType, *TIMES),
    "days": (DateType, *TIMES),
    "hours": TIMES,
    "bucket": (IntegralType, DecimalType, DateType, *TIMES, *TEXTS),
    "truncate": (IntegralType, DecimalType, *TEXTS),
    "": (DataType,),
}
"""The column types that a transform takes (Iceberg's specification, "Partition Transforms")."""
ENTRY = re.compile(
    r"(?P<time>years|months|days|hours)\(\s*(?P<timed>[^,()]+?)\s*\)"
    r"|(?P<sized>bucket|truncate)\(\s*(?P<size>[1-9]\d*)\s*,\s*(?P<sizable>[^,()]+?)\s*\)"
    r"|(?P<plain>[^(),]+)"
)


@dataclass(frozen=True)
class Partitioning:
    """One entry of ``partition_columns``."""

    transform: str
    """Empty for the column as it is."""
    size: str
    """Of bucket, into how many; of truncate, to how many characters, or to a multiple of what."""
    column: str


def partitioning(topic: Topic) -> list[Partitioning]:
    """The entries of ``partition_columns``.

    Raises:
        SettingsError: one is neither a column nor a transform of one.
    """
    return [_entry(text) for text in topic.table.partition_columns]


def check(topic: Topic, columns: StructType) -> None:
    """Sees that each transform takes the type of its column; the columns are those of *rows*.

    Raises:
        SettingsError: one does not.
    """
    types = {column.name.lower(): column.dataType for column in columns}
    for entry in partitioning(topic):
        found = types[entry.column.lower()]
        if not isinstance(found, TAKES[entry.transform]):
            raise SettingsError(
                f"table.partition_columns has {entry.transform} of {entry.column!r}, which is "
                f"{found.simpleString()} in the table of {topic.name}: {entry.transform} takes no "
                "such column. Name another, or make it one in transform.py."
            )


def _entry(text: str) -> Partitioning:
    found = ENTRY.fullmatch(text.strip())
    if found is None:
        raise SettingsError(
            f"table.partition_columns has {text!r}, which is neither a column nor a transform of "
            "one. Write for example: country, days(occurred_at), bucket(16, id), truncate(4, code)"
        )
    part = found.groupdict(default="")
    return Partitioning(
        transform=part["time"] or part["sized"],
        size=part["size"],
        column=part["timed"] or part["sizable"] or part["plain"],
    )
