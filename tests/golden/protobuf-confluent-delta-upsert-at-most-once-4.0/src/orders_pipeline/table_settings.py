"""Settings of the tables."""

from typing import Annotated, Literal

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
    key_columns: Annotated[list[str], Field(min_length=1)]
    """The columns that identify a row; required fields of the schema."""
    key_format: Literal["string", "json", "protobuf"] = "string"
    """How a record's key gives the key columns; only a delete, which has no value, needs it."""
    key_framed: bool = True
    """Whether such a key begins with the id of its schema, as values do; a string never does."""
    newest_by: str | None = None
    """A TIMESTAMP column that orders the records of a key; when not set, Kafka's own order does."""


def location_of(topic: str, table: TableSettings) -> str:
    """Where a topic has its table."""
    return under(table.location, topic)
