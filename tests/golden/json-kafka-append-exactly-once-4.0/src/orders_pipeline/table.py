"""The output topic of a topic, which the rest of the package calls its table."""

from collections.abc import Iterable
from typing import Any

from confluent_kafka import KafkaException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from . import kafka, kafka_topics, positions
from .errors import RefusedError
from .settings import Topic


def prepare(spark: SparkSession, topic: Topic, columns: StructType) -> None:
    """Makes the output topic if there is none, with as many partitions as its source has.

    Raises:
        RefusedError: there is none and the settings, or the brokers, say not to make it.
    """
    if exists(spark, topic):
        return
    if topic.table.missing == "refuse":
        raise no_table(topic)
    partitions = kafka_topics.partition_count(topic.settings, topic.name)
    try:
        kafka_topics.ensure_topic(topic.settings, topic.location, partitions)
    except KafkaException as error:
        raise RefusedError(
            f"The output topic {topic.location} could not be made with {partitions} partitions: "
            f"{error.args[0].str()}. Nothing was written. Make it by hand, or allow this client to."
        ) from None
    # Not every broker knows it at once.
    kafka_topics.max_message_bytes(topic.settings, topic.location)


def no_table(topic: Topic) -> RefusedError:
    """What a run says where there is no output topic and it is to make none."""
    return RefusedError(
        f"The output topic {topic.location} does not exist. Nothing was written. Create it, or set "
        'table.missing = "create".'
    )


def exists(spark: SparkSession, topic: Topic) -> bool:
    """True when there is such a topic."""
    return kafka_topics.exists(topic.settings, topic.location)


def identity(spark: SparkSession, topic: Topic) -> str | None:
    """The id that the brokers gave it when it was made; None where there is no such topic."""
    if not exists(spark, topic):
        return None
    return kafka_topics.topic_id(topic.settings, topic.location)


def newest_labels(spark: SparkSession, topic: Topic) -> list[dict[str, Any]]:
    """The label of the newest batch of each pipeline that ever sent rows here, the newest first.

    All have the same ends: up to where the rows are, whichever pipeline sent them.
    """
    by_pipeline: dict[str, dict[int, positions.Position]] = {}
    all_held = positions.all_held(topic)
    for partition, position in all_held.items():
        by_pipeline.setdefault(position.pipeline, {})[partition] = position
    newest = sorted(
        by_pipeline.values(), key=lambda held: max(p.sent_at for p in held.values()), reverse=True
    )
    return [positions.label(held, all_held) for held in newest]


def read(spark: SparkSession, topic: Topic, topics: Iterable[str] = ()) -> DataFrame:
    """What the output topic holds, or others of *topics* do: committed records alone.

    Columns: ``key``, ``value`` STRING; of the source, from the headers, ``_topic`` STRING,
    ``_partition`` INT, ``_offset`` BIGINT and ``_timestamp`` TIMESTAMP, null in records of others.
    """
    asked = topics or [topic.location]
    there = [name for name in asked if kafka_topics.exists(topic.settings, name)]
    records = (
        spark.read.format("kafka")
        .options(**kafka.read_options(topic.settings))
        .option("subscribe", ",".join(there))
        .load()
    )
    return records.select(
        F.col("key").cast("string").alias("key"),
        F.col("value").cast("string").alias("value"),
        _header("topic").alias("_topic"),
        _header("partition").cast("int").alias("_partition"),
        _header("offset").cast("long").alias("_offset"),
        F.timestamp_millis(_header("timestamp").cast("long")).alias("_timestamp"),
    )


def quoted(name: str) -> str:
    """A column's name as SQL takes it, whatever is in it."""
    return "`" + name.replace("`", "``") + "`"


def _header(name: str) -> Column:
    # The last of that name: one that came with the source's record stands before ours.
    named = F.filter("headers", lambda header: header["key"] == positions.HEADER + name)
    return F.try_element_at(F.transform(named, lambda header: header["value"]), F.lit(-1)).cast(
        "string"
    )
