"""Settings of the tables."""

import re
from typing import Annotated, Literal

from pydantic import Field

from .sections import Section

LONGEST_NAME = 128
"""Characters that a table's name may have."""


class TableSettings(Section):
    """How the tables are made and kept; ``[topic."<name>"]`` says what one topic does otherwise."""

    schema_name: Annotated[str, Field(min_length=1)] = "dbo"
    """The database's schema that has the tables, which must be there."""
    table_name: Annotated[str, Field(min_length=1, max_length=LONGEST_NAME)] | None = None
    """For one topic; when not set, its own name, in lower case, with _ for what is no letter."""
    schema_changes: Literal["add", "refuse"] = "add"
    """A column that the table lacks: added (nullable), or the start is refused."""
    key_columns: Annotated[list[str], Field(min_length=1)]
    """The columns that identify a row; required fields of the schema."""
    key_format: Literal["string", "json"] = "string"
    """How a record's key gives the key columns; only a delete, which has no value, needs it."""
    newest_by: str | None = None
    """A TIMESTAMP column that orders the records of a key; when not set, Kafka's own order does."""


def name_of(topic: str, table: TableSettings) -> str:
    """What a topic's table is called."""
    return table.table_name or re.sub(r"[^a-z0-9]", "_", topic.lower())


def location_of(topic: str, table: TableSettings) -> str:
    """The schema and the name of a topic's table, for people."""
    return f"{table.schema_name}.{name_of(topic, table)}"


def check_tables(tables: dict[str, TableSettings]) -> None:
    """Sees that each topic has a table of its own.

    Raises:
        ValueError: two have the same, or a name is too long.
    """
    # Case is nothing in a name.
    places = {
        topic: (table.schema_name.lower(), name_of(topic, table).lower())
        for topic, table in tables.items()
    }
    for topic, (schema_name, name) in places.items():
        if len(name) > LONGEST_NAME or [*places.values()].count((schema_name, name)) > 1:
            raise ValueError(
                f"the table of {topic} cannot be called {name}: another is, or it is too "
                f'long. Set topic."{topic}".table_name'
            )
