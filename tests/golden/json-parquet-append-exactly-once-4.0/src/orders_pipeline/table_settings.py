"""Settings of the tables."""

from typing import Literal

from pydantic import Field

from .places import under
from .sections import Section


class TableSettings(Section):
    """How the tables are made and kept; ``[topic."<name>"]`` says what one topic does otherwise."""

    location: str = "data/tables"
    """The folder or URI under which each topic has its table."""
    partition_columns: list[str] = Field(default_factory=list)
    schema_changes: Literal["add", "refuse"] = "add"
    """A column that the table lacks: added (nullable), or the start is refused."""


def location_of(topic: str, table: TableSettings) -> str:
    """Where a topic has its table."""
    return under(table.location, topic)
