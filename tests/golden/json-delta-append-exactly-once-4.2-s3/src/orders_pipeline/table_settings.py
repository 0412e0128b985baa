"""Settings of the tables."""

from typing import Literal

from pydantic import Field

from .places import Location, under
from .sections import Section


class TableSettings(Section):
    """How the tables are made and kept; ``[topic."<name>"]`` says what one topic does otherwise."""

    location: Location
    """Where each topic has its table: s3a://my-bucket/prefix."""
    partition_columns: list[str] = Field(default_factory=list)
    schema_changes: Literal["add", "refuse"] = "add"
    """A column that the table lacks: added (nullable), or the start is refused."""


def location_of(topic: str, table: TableSettings) -> str:
    """Where a topic has its table."""
    return under(table.location, topic)
