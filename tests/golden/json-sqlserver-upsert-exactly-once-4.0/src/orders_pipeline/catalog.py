"""What SQL Server knows of its tables, asked of its views ``sys``."""

from dataclasses import dataclass

from .database import Connection
from .settings import Topic


@dataclass(frozen=True)
class Held:
    """A column that a table has."""

    kind: str
    """Its type, as a CREATE TABLE would name it."""
    collation: str | None
    """How it compares text; None for what is no text."""
    needs_value: bool
    """A row that says nothing of it is refused."""


def number_of(connection: Connection, schema_name: str, name: str) -> int | None:
    """The number that SQL Server gave a table when it was made; None where there is no table."""
    found = connection.query(
        "SELECT t.object_id FROM sys.tables AS t JOIN sys.schemas AS s "
        "ON s.schema_id = t.schema_id WHERE s.name = ? AND t.name = ?",
        *(schema_name, name),
    )
    return int(found[0][0]) if found else None


def tables_of(connection: Connection, schema_name: str) -> list[str]:
    """The names of all tables of a schema."""
    found = connection.query(
        "SELECT t.name FROM sys.tables AS t JOIN sys.schemas AS s "
        "ON s.schema_id = t.schema_id WHERE s.name = ?",
        schema_name,
    )
    return [name for (name,) in found]


def columns_of(connection: Connection, topic: Topic) -> dict[str, Held]:
    """The columns of the topic's table by their names in lower case, since case is nothing there.

    Empty where there is no table.
    """
    found = connection.query(
        "SELECT c.name, y.name, c.max_length, c.precision, c.scale, c.collation_name, "
        "c.is_nullable, c.is_identity, c.is_computed, c.default_object_id, "
        "c.generated_always_type "
        "FROM sys.columns AS c JOIN sys.types AS y ON y.user_type_id = c.user_type_id "
        "WHERE c.object_id = ? ORDER BY c.column_id",
        number_of(connection, topic.table.schema_name, topic.table_name) or -1,
    )
    return {
        name.lower(): Held(
            _kind(kind, length, precision, scale),
            collation,
            # A timestamp is what SQL Server also calls a rowversion: it fills that itself.
            not (any(filled) or kind == "timestamp"),
        )
        for name, kind, length, precision, scale, collation, *filled in found
    }


def unique_keys(connection: Connection, topic: Topic) -> list[set[str]]:
    """The columns, in lower case, of each index that lets no two rows have the same in them."""
    found = connection.query(
        "SELECT i.index_id, c.name FROM sys.indexes AS i "
        "JOIN sys.index_columns AS p ON p.object_id = i.object_id AND p.index_id = i.index_id "
        "JOIN sys.columns AS c ON c.object_id = p.object_id AND c.column_id = p.column_id "
        "WHERE i.object_id = ? AND i.is_unique = 1 AND i.has_filter = 0 AND i.is_disabled = 0 "
        "AND p.is_included_column = 0",
        number_of(connection, topic.table.schema_name, topic.table_name) or -1,
    )
    keys: dict[object, set[str]] = {}
    for index, name in found:
        keys.setdefault(index, set()).add(name.lower())
    return list(keys.values())


def _kind(name: str, length_bytes: int, precision: int, scale: int) -> str:
    if name in ("decimal", "numeric"):
        return f"decimal({precision},{scale})"
    if name in ("datetimeoffset", "datetime2"):
        return f"{name}({scale})"
    if name in ("nvarchar", "nchar"):
        return f"{name}({'max' if length_bytes == -1 else length_bytes // 2})"
    if name in ("varchar", "char", "varbinary", "binary"):
        return f"{name}({'max' if length_bytes == -1 else length_bytes})"
    return name
