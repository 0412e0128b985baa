"""The write: every row becomes a record of the output topic.

*output records*, one for each row:

    topic STRING       where it goes; not null
    partition INT      null where the key chooses
    key BINARY         null without key columns
    value BINARY       not null where ``refused`` is null
    refused STRING     why it is not to be sent; null where it is
    headers STRING     null where there are none: those of the source's record (``shapes.py``)
    _partition INT, _offset BIGINT, _timestamp BIGINT
                       not null: the source's coordinates and clock (ms), for headers of our own
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from . import kafka_topics, table
from .batch import Batch, Written
from .counting import every, observe
from .encoding import encode
from .errors import RefusedError
from .positions import HEADROOM_BYTES, wait_for_open
from .producing import produce
from .sending import ACKNOWLEDGED, send
from .settings import Topic
from .shapes import AS_JSON, HEADERS, RESERVED

HEADER_BYTES = 10
"""Of each header, what says how long its name and its value are."""
TOO_LARGE = "its record is larger than the output topic takes"
NO_KEY = "its key is null, and the output topic is compacted"


def write(rows: DataFrame, batch: Batch, topic: Topic) -> Written:
    """Sends the *rows* of one batch (``shapes.py``).

    Raises:
        see ``producing.produce``.
    """
    return produce(_output_records(rows, topic), batch, topic)


def fill(rows: DataFrame, topic: Topic) -> Written:
    """Sends those *rows* whose coordinates no record in the output topic bears.

    Safe to repeat, one at a time, and beside the stream as long as the rows lie before its
    position: the stream never comes back to them. What the output topic has deleted is sent again.

    Raises:
        RefusedError: the output topic is compacted, where the record that comes last is the one
            that stays; nothing was sent.
        NoAnswerError: see ``positions.wait_for_open``.
        BatchError: not all could be sent; to repeat it sends the rest.
    """
    rows, counts = observe(rows, received=every())
    names = ["_topic", "_partition", "_offset"]
    records = _output_records(rows.dropDuplicates(names), topic)
    topics = {topic.location}
    if topic.table.topic_column:
        topics = {row.topic for row in records.select("topic").distinct().collect()}
    there = [each for each in topics if kafka_topics.exists(topic.settings, each)]
    for each in there:
        if kafka_topics.is_compacted(topic.settings, each):
            raise RefusedError(
                f"The output topic {each} is compacted: of each key it keeps what was sent last, "
                "and older records would come behind newer ones. Nothing was written. Fill "
                "another output topic, with a new checkpoint, from the source's start."
            )
    wait_for_open(topic, there)
    held = table.read(rows.sparkSession, topic, topics).where(F.col("_topic") == topic.name)
    missing = records.join(held.select(*names[1:]), names[1:], "left_anti")
    # One task sends all of a source partition, in order: of a key, the newest record comes last.
    in_order = missing.repartition("_partition").sortWithinPartitions("_partition", "_offset")
    done = send(in_order, topic, ACKNOWLEDGED)
    received = int(counts.get["received"])
    skipped = received - done.received
    return Written(received, done.written, skipped=skipped, refused=done.refused)


def _output_records(rows: DataFrame, topic: Topic) -> DataFrame:
    keys = topic.table.key_columns
    by_column = topic.table.topic_column
    if keys or by_column:
        partition = F.lit(None).cast("int")
    else:
        # The order of a source partition is kept.
        partitions = kafka_topics.partition_count(topic.settings, topic.location)
        partition = F.col("_partition") % partitions
    fields = [F.col(table.quoted(name)) for name in rows.columns if name not in RESERVED]
    chosen = rows.select(
        _topic(by_column, topic).alias("topic"),
        partition.alias("partition"),
        _key(keys).cast("binary").alias("key"),
        F.struct(*fields).alias("row"),
        F.col("_headers").alias("headers"),
        "_partition",
        "_offset",
        F.unix_millis("_timestamp").alias("_timestamp"),
    )
    room = kafka_topics.max_message_bytes(topic.settings, topic.location) - HEADROOM_BYTES
    refused = [F.col("refused"), F.when(_size() > room, F.lit(TOO_LARGE))]
    if kafka_topics.is_compacted(topic.settings, topic.location):
        refused.append(F.when(F.col("key").isNull(), F.lit(NO_KEY)))
    return encode(chosen, topic).withColumn("refused", F.coalesce(*refused))


def _topic(by_column: str | None, topic: Topic) -> Column:
    if by_column is None:
        return F.lit(topic.location)
    named = F.coalesce(F.col(table.quoted(by_column)).cast("string"), F.lit(topic.location))
    would_return = named.isin(*topic.settings.own_topics)
    said = f"{by_column} names a topic that this pipeline reads, or one of its dead-letter topics"
    return F.when(would_return, F.raise_error(F.lit(said))).otherwise(named)


def _key(columns: list[str]) -> Column:
    if not columns:
        return F.lit(None)
    if len(columns) == 1:
        return F.col(table.quoted(columns[0])).cast("string")
    named = F.struct(*(F.col(table.quoted(name)) for name in columns))
    return F.to_json(named, AS_JSON)


def _size() -> Column:
    """What a record has of bytes, but for our own headers."""
    headers = F.coalesce(F.from_json("headers", HEADERS), F.array().cast(HEADERS))
    passed_on = F.aggregate(headers, F.lit(0), lambda size, each: size + _header_size(each))
    return _length(F.col("key")) + _length(F.col("value")) + passed_on


def _header_size(header: Column) -> Column:
    return _length(header["key"]) + _length(header["value"]) + HEADER_BYTES


def _length(column: Column) -> Column:
    return F.coalesce(F.octet_length(column), F.lit(0))
