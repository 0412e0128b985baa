"""The Kafka reader."""

import json

from pyspark.sql import DataFrame, SparkSession

from .batch import Offsets, offsets_to_json, read_offsets
from .kafka import read_options
from .kafka_topics import partition_count
from .settings import Settings, Topic
from .shapes import RECORDS

EARLIEST = -2
"""Spark's word for the oldest offset of a partition."""


def read_stream(spark: SparkSession, topic: Topic, starting: str) -> DataFrame:
    """The topic as a stream of *records* (``shapes.py``), from the checkpoint's position on.

    Without one it begins at ``starting``: ``earliest``, ``latest`` or offsets as JSON.

    A topic whose oldest records are gone before they were read fails the query rather than skip
    them (Spark's ``failOnDataLoss``).
    """
    kafka = topic.settings.kafka
    if starting not in ("earliest", "latest"):
        given = read_offsets(starting)
        partitions = range(partition_count(topic.settings, topic.name))
        starting = _by_topic(topic.name, {p: given.get(p, EARLIEST) for p in partitions})
    return (
        spark.readStream.format("kafka")
        .options(**read_options(topic.settings))
        .option("subscribe", topic.name)
        .option("startingOffsets", starting)
        .option("maxOffsetsPerTrigger", kafka.max_offsets_per_trigger)
        .option("maxRecordsPerPartition", kafka.max_records_per_partition)
        .option("failOnDataLoss", "true")
        .load()
        .select(*RECORDS.fieldNames())
    )


def read_range(
    spark: SparkSession, settings: Settings, topic: str, start: Offsets, end: Offsets
) -> DataFrame:
    """The *records* of a topic between two positions; ``end`` is not included.

    Of a partition that ``end`` leaves out, nothing is read; of one that just ``start`` leaves out,
    all from offset 0 on. Spark wants every partition named.
    """
    partitions = range(partition_count(settings, topic))
    end = {p: end.get(p, start.get(p, 0)) for p in partitions}
    start = {p: start.get(p, 0) for p in partitions}
    return (
        spark.read.format("kafka")
        .options(**read_options(settings))
        .option("subscribe", topic)
        .option("startingOffsets", _by_topic(topic, start))
        .option("endingOffsets", _by_topic(topic, end))
        .option("failOnDataLoss", "true")
        .load()
        .select(*RECORDS.fieldNames())
    )


def _by_topic(topic: str, offsets: Offsets) -> str:
    return json.dumps({topic: offsets_to_json(offsets)})
