"""Which records become rows: every accepted one, and a delete for each null value."""

from collections.abc import Callable

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from .decode import Decoded
from .errors import SettingsError
from .keys import make_key_decoder
from .settings import Topic
from .shapes import COORDINATES, RESERVED, is_accepted


def accepted_rows(decoded: DataFrame) -> DataFrame:
    """The *rows* of the accepted records of *decoded* (``shapes.py``), deletes among them."""
    deleted = F.col("deleted").alias("_deleted")
    return decoded.where(is_accepted()).select("record.*", *COORDINATES.fieldNames(), deleted)


def make_tombstone_decoder(topic: Topic, fields: pa.Schema) -> Callable[[pa.Array], Decoded]:
    """Turns the keys of records whose value is null into rows that hold just the key columns.

    A null key, or one that does not give the key columns, is rejected: nothing could match it.

    Raises:
        SettingsError: a key column is not a required field of the schema, or its name is taken.
    """
    for column in topic.table.key_columns:
        if column not in fields.names or fields.field(column).nullable:
            raise SettingsError(
                f"The key column {column!r} of the topic {topic.name!r} is not a required field. "
                f"In {topic.schema_path}, write: {column} STRING NOT NULL"
            )
        names = [*RESERVED, *(name.lower() for name in fields.names)]
        if names.count(column.lower()) > 1:
            raise SettingsError(
                f"The key column {column!r} of the topic {topic.name!r} differs from another field "
                "or from a column of the pipeline's own in nothing but case, which a table does "
                "not see. Choose another, or rename the field"
            )
    key_fields = pa.schema([fields.field(column) for column in topic.table.key_columns])
    decode_keys = make_key_decoder(key_fields, topic.table.key_format)

    def decode_tombstones(keys: pa.Array) -> Decoded:
        decoded = decode_keys(keys)
        columns = dict(zip(key_fields.names, decoded.rows.flatten(), strict=True))
        rows = pa.StructArray.from_arrays(
            [
                columns[field.name] if field.name in columns else pa.nulls(len(keys), field.type)
                for field in fields
            ],
            fields=[field.with_nullable(True) for field in fields],
            mask=decoded.reasons.is_valid(),
        )
        return decoded._replace(rows=rows)

    return decode_tombstones
