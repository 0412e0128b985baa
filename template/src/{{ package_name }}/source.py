"""The Kafka reader."""

import json

from pyspark.sql import DataFrame, SparkSession

from .batch import Offsets, offsets_from_json, offsets_to_json
from .kafka import spark_options
from .settings import Settings, Topic

FETCH = {
    # The default, 500 records a poll, makes reading a third slower.
    "kafka.max.poll.records": "10000",
    # Records of a transaction that was rolled back were never sent.
    "kafka.isolation.level": "read_committed",
    "includeHeaders": "true",
}


def read_stream(spark: SparkSession, topic: Topic) -> DataFrame:
    """The topic as a stream of *records* (``shapes.py``), from the checkpoint's position on.

    A topic whose oldest records are gone before they were read fails the query rather than skip
    them (Spark's ``failOnDataLoss``).
    """
    kafka = topic.settings.kafka
    starting = kafka.starting_offsets
    if starting not in ("earliest", "latest"):
        starting = _by_topic(topic.name, offsets_from_json(json.loads(starting)))
    return (
        spark.readStream.format("kafka")
        .options(**spark_options(topic.settings), **FETCH)
        .option("subscribe", topic.name)
        .option("startingOffsets", starting)
        .option("maxOffsetsPerTrigger", kafka.max_offsets_per_trigger)
        .option("maxRecordsPerPartition", kafka.max_records_per_partition)
        .option("failOnDataLoss", "true")
        .load()
    )


def read_range(
    spark: SparkSession, settings: Settings, topic: str, start: Offsets, end: Offsets
) -> DataFrame:
    """The *records* of a topic between two positions; ``end`` is not included."""
    return (
        spark.read.format("kafka")
        .options(**spark_options(settings), **FETCH)
        .option("subscribe", topic)
        .option("startingOffsets", _by_topic(topic, start))
        .option("endingOffsets", _by_topic(topic, end))
        .option("failOnDataLoss", "true")
        .load()
    )


def _by_topic(topic: str, offsets: Offsets) -> str:
    return json.dumps({topic: offsets_to_json(offsets)})
