"""Settings of the tables, and of the catalog that has them."""

import re
from typing import Annotated, Literal

from pydantic import Field, model_validator

from .places import absolute
from .sections import Section

SECRET = re.compile(r"(?i)credential|password|secret|token|access.?key")
SECRETS_ELSEWHERE = (
    "Take them out, and give them by the environment: PIPELINE_CATALOG_CREDENTIAL or "
    "PIPELINE_CATALOG_TOKEN for a REST catalog, a store's own variables for a store"
)


class TableSettings(Section):
    """How the tables are made and kept; ``[topic."<name>"]`` says what one topic does otherwise."""

    location: str = "data/tables"
    """The folder or URI under which the catalog has the tables: its warehouse. What a REST catalog
    calls its warehouse may be a name."""
    catalog: Literal["hadoop", "rest", "hive"] = "hadoop"
    """hadoop: the folder itself, without a service; rest, hive: the service at ``catalog_uri``."""
    catalog_uri: str | None = None
    """https://… of a REST catalog, thrift://… of a Hive metastore; without credentials in it."""
    catalog_properties: dict[str, str] = Field(default_factory=dict)
    """More of Iceberg's own properties of the catalog, such as io-impl; none of them secret."""
    namespace: Annotated[str, Field(pattern=r"^[A-Za-z0-9_]+(\.[A-Za-z0-9_]+)*$")] = "ingest"
    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_]+$")] | None = None
    """The table's name; when not set, the topic's, with _ for each dot and hyphen."""
    partition_columns: list[str] = Field(default_factory=list)
    """Columns, and transforms of them: days(occurred_at), bucket(16, id)."""
    schema_changes: Literal["add", "refuse"] = "add"
    """A column that the table lacks: added (nullable), or the start is refused."""
    key_columns: Annotated[list[str], Field(min_length=1)]
    """The columns that identify a row; required fields of the schema."""
    key_format: Literal["string", "json"] = "string"
    """How a record's key gives the key columns; only a delete, which has no value, needs it."""
    newest_by: str | None = None
    """A TIMESTAMP column that orders the records of a key; when not set, Kafka's own order does."""

    @model_validator(mode="after")
    def _check_service(self) -> "TableSettings":
        if (self.catalog == "hadoop") != (self.catalog_uri is None):
            raise ValueError(
                'catalog_uri says where the service of catalog = "rest" or "hive" is; "hadoop" has '
                "none. Set both, or neither"
            )
        return self

    @model_validator(mode="after")
    def _check_no_secret(self) -> "TableSettings":
        if "@" in (self.catalog_uri or ""):
            raise ValueError(f"catalog_uri holds credentials. {SECRETS_ELSEWHERE}")
        for name in self.catalog_properties:
            if SECRET.search(name):
                raise ValueError(f"catalog_properties names {name}. {SECRETS_ELSEWHERE}")
        return self


def name_of(topic: str, table: TableSettings) -> str:
    """What a topic's table is called in its namespace."""
    return table.name or re.sub(r"[.-]", "_", topic)


def warehouse_of(table: TableSettings) -> str:
    """What the catalog is told of where its tables are."""
    return table.location if table.catalog == "rest" else absolute(table.location)


def location_of(topic: str, table: TableSettings) -> str:
    """A topic's table, as a person calls it."""
    where = table.catalog_uri or warehouse_of(table)
    return f"{table.namespace}.{name_of(topic, table)} in {where}"


def check_tables(tables: dict[str, TableSettings]) -> None:
    """Sees that each topic has a table of its own.

    Raises:
        ValueError: two have the same.
    """
    taken: dict[str, str] = {}
    for topic, table in tables.items():
        location = location_of(topic, table).lower()
        if location in taken:
            raise ValueError(
                f"topics {taken[location]} and {topic} have the same table, {location}: give "
                f'one a name of its own under [topic."{topic}"]'
            )
        taken[location] = topic
