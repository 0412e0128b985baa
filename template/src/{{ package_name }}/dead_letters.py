"""What could not be ingested: its bytes unchanged, the reason in its headers.

Header names are those of Kafka Connect's error reporting, so that existing tools show them.
"""

import logging

from confluent_kafka import KafkaException
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from . import kafka, kafka_topics
from .batch import NO_BATCH, Batch, Letters
from .delivery import AFTER_A_FAILURE
from .errors import DeadLetterError, NoAnswerError, RefusedError
from .settings import Topic
from .shapes import HEADERS

CONNECT = "__connect.errors."
TRUNCATED = "ingest.truncated.from.bytes"
OURS = (
    CONNECT + "topic",
    CONNECT + "partition",
    CONNECT + "offset",
    CONNECT + "exception.class.name",
    CONNECT + "exception.message",
    CONNECT + "stage",
    "ingest.pipeline",
    "ingest.batch",
    "ingest.timestamp",
)
"""The headers that a letter has beside the record's own: the last ones, if it is whole."""
FAILURES = (
    DeadLetterError,
    NoAnswerError,
    RefusedError,
    KafkaException,
    TimeoutError,
    PySparkException,
    Py4JJavaError,
)
"""All that a broker that refuses, or does not answer, ends in."""
HEADROOM_BYTES = 4096
"""Room for our headers and framing beside what the largest record has."""
MESSAGE_CHARACTERS = 700
"""Of a reason's text; the rest of it would leave no room for the others."""
log = logging.getLogger(__name__)


def prepare(topic: Topic) -> None:
    """Makes sure that the dead-letter topic is there, with a partition for each of its source's.

    Raises:
        DeadLetterError: it cannot be made or made larger.
    """
    partitions = kafka_topics.partition_count(topic.settings, topic.name)
    try:
        kafka_topics.ensure_topic(topic.settings, topic.dead_letters, partitions)
    except KafkaException as error:
        raise DeadLetterError(
            f"The dead-letter topic {topic.dead_letters} could not be made with {partitions} "
            f"partitions: {error.args[0].str()}. Make it by hand, or allow this client to."
        ) from None


def send(rejected: DataFrame, batch: Batch, topic: Topic) -> Letters:
    """Stores rejected records in the dead-letter topic, each in its source's partition.

    Columns: *decoded* (``shapes.py``), only rows with a ``rejected``.

    Raises:
        DeadLetterError: not all could be stored and the settings say to stop.
    """
    settings = topic.settings
    letters: DataFrame | None = None
    try:
        prepare(topic)
        limit = kafka_topics.max_message_bytes(settings, topic.dead_letters)
        # Kept for as long as it takes to count and to send them: Spark's Kafka sink says nothing
        # of how many it stored, and observations never arrive from it.
        letters = rejected.select(*_letter(batch, topic, limit)).persist()
        stored = letters.count()
        (
            letters.write.format("kafka")
            .options(**kafka.spark_options(settings))
            .option("kafka.acks", "all")
            .option("kafka.enable.idempotence", "true")
            .option("kafka.max.request.size", limit + HEADROOM_BYTES)
            .option("kafka.buffer.memory", max(kafka.BUFFER_BYTES, limit + HEADROOM_BYTES))
            .option("kafka.delivery.timeout.ms", 60_000)
            .option("kafka.request.timeout.ms", 20_000)
            .option("kafka.max.block.ms", 30_000)
            .save()
        )
        return Letters(stored=stored)
    except FAILURES as error:
        if settings.dead_letters.on_failure == "stop":
            raise DeadLetterError(_not_stored(batch, topic, kafka.cause(error))) from error
        return Letters(logged=_log_coordinates(rejected, topic, kafka.cause(error)))
    finally:
        if letters is not None:
            letters.unpersist()


def original_records(letters: DataFrame) -> DataFrame:
    """The *records* that were rejected, as they were: own coordinates, own bytes, own headers.

    Columns: *records* in, of the dead-letter topic; *records* out, of the source topic.
    Rows: letters whose value was truncated are left out, with a line in the log.
    """
    whole = letters.where(_header(TRUNCATED).isNull())
    truncated = letters.where(_header(TRUNCATED).isNotNull())
    where = [_header(CONNECT + "partition"), _header(CONNECT + "offset")]
    for row in truncated.select(*where).collect():
        log.warning("left out, since its letter is truncated: partition %s, offset %s", *row)
    own = F.greatest(F.size("headers") - len(OURS), F.lit(0))
    return whole.select(
        _header(CONNECT + "topic").alias("topic"),
        _header(CONNECT + "partition").cast("int").alias("partition"),
        _header(CONNECT + "offset").cast("long").alias("offset"),
        F.timestamp_millis(_header("ingest.timestamp").cast("long")).alias("timestamp"),
        "key",
        "value",
        F.slice("headers", 1, own).alias("headers"),
    )


def reason() -> Column:
    """The reason in a letter's headers."""
    return _header(CONNECT + "exception.class.name")


def _not_stored(batch: Batch, topic: Topic, cause: str) -> str:
    if batch.id == NO_BATCH:
        return (
            f"The dead letters of the backfill of {topic.name} could not all be stored in "
            f"{topic.dead_letters}: {cause}. Its rows are in the table. Mend the topic, then run "
            "the same command again: it adds no row twice."
        )
    return (
        f"The dead letters of batch {batch.id} of {topic.name} could not all be stored in "
        f"{topic.dead_letters}: {cause}. The batch is not committed; its rows may be in the table "
        f"already. Mend the topic, then {AFTER_A_FAILURE}."
    )


def _header(name: str) -> Column:
    """The newest header of that name, as text; null where there is none."""
    named = F.filter("headers", lambda header: header["key"] == name)
    values = F.transform(named, lambda header: header["value"])
    return F.try_element_at(values, F.lit(-1)).cast("string")


def _letter(batch: Batch, topic: Topic, limit_bytes: int) -> list[Column]:
    """The columns of *letters*: what Spark's Kafka sink takes.

    Of a record too large for the topic the value and the key are cut, and its headers left out if
    they are large.
    """
    value = F.col("rejected.value")
    room = max(limit_bytes - HEADROOM_BYTES, 0)
    key, headers = F.col("rejected.key"), F.col("rejected.headers")
    sizes = [F.coalesce(F.octet_length(each), F.lit(0)) for each in (value, key, headers)]
    too_large = sizes[0] + sizes[1] + sizes[2] > room
    own = F.coalesce(F.from_json(headers, HEADERS), F.array().cast(HEADERS))
    own = F.when(too_large & (sizes[2] > room // 4), F.array().cast(HEADERS)).otherwise(own)
    ours = (
        F.col("_topic"),
        F.col("_partition"),
        F.col("_offset"),
        F.col("rejected.reason"),
        F.substring("rejected.message", 1, MESSAGE_CHARACTERS),
        F.lit("VALUE_CONVERTER"),
        F.lit(topic.settings.name),
        F.lit(batch.id),
        F.unix_millis("_timestamp"),
    )
    truncated = F.when(too_large, _headers({TRUNCATED: sizes[0]}))
    return [
        F.lit(topic.dead_letters).alias("topic"),
        F.col("_partition").alias("partition"),
        F.when(too_large, F.substring(key, 1, room // 4)).otherwise(key).alias("key"),
        F.when(too_large, F.substring(value, 1, room // 2)).otherwise(value).alias("value"),
        F.concat(
            own,
            _headers(dict(zip(OURS, ours, strict=True))),
            F.coalesce(truncated, F.array().cast(HEADERS)),
        ).alias("headers"),
    ]


def _headers(values: dict[str, Column]) -> Column:
    return F.array(
        *(
            F.struct(F.lit(name).alias("key"), value.cast("string").cast("binary").alias("value"))
            for name, value in values.items()
        )
    ).cast(HEADERS)


def _log_coordinates(rejected: DataFrame, topic: Topic, cause: str) -> int:
    """Says of each letter that could not be stored where its record is; returns how many."""
    log.error("%s takes no dead letters (%s); they are in this log:", topic.dead_letters, cause)
    count = 0
    for row in rejected.select("_partition", "_offset", "rejected.reason").toLocalIterator():
        log.error("dead letter not stored: %s %s", topic.name, row.asDict())
        count += 1
    return count
