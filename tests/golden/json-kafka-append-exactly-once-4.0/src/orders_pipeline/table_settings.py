"""Settings of the output topics."""

from typing import Annotated, Literal

from pydantic import Field

from .sections import Section


class TableSettings(Section):
    """Where the rows go, and how; ``[topic."<name>"]`` says what one topic does otherwise."""

    topic_suffix: Annotated[str, Field(pattern=r"^[a-zA-Z0-9._-]+$")] = ".out"
    """The rows of a topic go to the topic of its name with this at its end …"""
    topic_name: Annotated[str, Field(pattern=r"^[a-zA-Z0-9._-]{1,249}$")] | None = None
    """… or to this one."""
    topic_column: str | None = None
    """A STRING column that names another topic for a row; where it is null, the row goes there."""
    key_columns: list[str] = Field(default_factory=list)
    """The columns that make the records' keys: one as text, several as a JSON object."""
    missing: Literal["create", "refuse"] = "create"
    """An output topic that does not exist: made when a run starts, or the start is refused."""


def location_of(topic: str, table: TableSettings) -> str:
    """The topic that the rows of a topic go to."""
    return table.topic_name or topic + table.topic_suffix


def check_tables(tables: dict[str, TableSettings], own_topics: list[str]) -> None:
    """Sees that no topic's rows go where they would come round again: to one of *own_topics*.

    Raises:
        ValueError: they would.
    """
    for name, table in tables.items():
        output = location_of(name, table)
        if output in own_topics:
            raise ValueError(
                f"the rows of {name} would go to {output}, which this pipeline reads or has "
                f'its dead letters in: set topic."{name}".topic_name'
            )
