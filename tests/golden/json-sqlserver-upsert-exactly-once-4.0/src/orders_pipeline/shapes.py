"""The columns of every DataFrame that crosses a module, and of nothing else.

*records*: what ``source.py`` reads, in Kafka's names.

    topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP   not null
    key BINARY, value BINARY                                          null where there is none
    headers ARRAY<STRUCT<key STRING, value BINARY>>                   null where there are none

*decoded*: one row for each record, in no order.

    _topic STRING, _partition INT, _offset BIGINT, _timestamp TIMESTAMP
                                                  not null: the coordinates, and Kafka's clock
    record STRUCT<the record's columns>           null when rejected
    deleted BOOLEAN                               not null: the value is null (a tombstone)
    rejected STRUCT<reason STRING, message STRING,
        key BINARY, value BINARY,                 null when accepted; else reason and message are
        headers STRING>                           set, and the rest is the record's own, its
                                                  headers as the JSON that Spark makes of them

*rows*: what ``transform.py`` is given and gives back: the record's columns, then the coordinates,
then _deleted BOOLEAN (not null): in a delete only the key columns and the coordinates are set.

*letters*: what ``dead_letters.py`` sends, in the Kafka sink's names (topic, partition, key, value,
headers).
"""

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

COORDINATES = StructType(
    [
        StructField("_topic", StringType(), nullable=False),
        StructField("_partition", IntegerType(), nullable=False),
        StructField("_offset", LongType(), nullable=False),
        StructField("_timestamp", TimestampType(), nullable=False),
    ]
)
HEADERS = ArrayType(
    StructType([StructField("key", StringType()), StructField("value", BinaryType())])
)
RECORDS = StructType(
    [
        StructField("topic", StringType(), nullable=False),
        StructField("partition", IntegerType(), nullable=False),
        StructField("offset", LongType(), nullable=False),
        StructField("timestamp", TimestampType(), nullable=False),
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("headers", HEADERS),
    ]
)
REJECTED = StructType(
    [
        StructField("reason", StringType()),
        StructField("message", StringType()),
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("headers", StringType()),
    ]
)
RESERVED = {*COORDINATES.fieldNames(), "_deleted"}
"""Columns of the pipeline's own: a field of such a name gets an underscore (``names.py``)."""
AS_JSON = {
    "ignoreNullFields": "false",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
"""How what nests becomes JSON: Spark's own would leave nulls out and cut microseconds."""


def decoded_shape(columns: StructType) -> StructType:
    """The shape *decoded* for records with these columns."""
    return StructType(
        [
            *COORDINATES,
            StructField("record", columns),
            StructField("deleted", BooleanType(), nullable=False),
            StructField("rejected", REJECTED),
        ]
    )


def is_rejected() -> Column:
    """True for a *decoded* row that goes to the dead letters."""
    return F.col("rejected").isNotNull()


def is_accepted() -> Column:
    """True for a *decoded* row that has a record."""
    return F.col("record").isNotNull()
