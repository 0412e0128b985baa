"""Takes records into the table beside the stream: a range of the topic, or its dead letters.

Safe beside the stream, since it takes only records that the stream has passed and never comes back
to; safe to repeat, since ``sink.fill`` changes nothing that the table has already.
"""

import logging
import time

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from . import binding, dead_letters, kafka_topics, metrics, sink, source
from .batch import NO_BATCH, Balance, Batch, Letters, Offsets
from .checkpoint import Checkpoint
from .counting import every, observe, outcomes
from .decoding import Decoder
from .errors import RefusedError
from .rows import accepted_rows
from .schema import read_schema
from .settings import Topic
from .transform import transform

log = logging.getLogger(__name__)


def stream_position(spark: SparkSession, topic: Topic) -> Offsets:
    """Where the stream stands: the offsets, not included, up to which batches are committed.

    Raises:
        RefusedError: it has committed none yet.
    """
    ends = Checkpoint(spark, topic.checkpoint, topic.name).committed_ends()
    if ends is None:
        raise RefusedError(
            f"The stream of {topic.name} has not committed a batch yet; what is written now, it "
            "would write again. Nothing was written. First let it finish a batch (`run`)."
        )
    return ends


def backfill(spark: SparkSession, topic: Topic, start: Offsets, end: Offsets | None) -> Balance:
    """Takes the records from ``start`` up to ``end`` (not included) into the topic's table.

    Without an end it takes all up to where the stream stands.

    Raises:
        RefusedError: ``end`` lies beyond the stream's position, the topic has no such partition,
            or see ``binding.check``.
    """
    position = stream_position(spark, topic)
    binding.check_bound(spark, topic)
    end = position if end is None else end
    beyond = {p: offset for p, offset in end.items() if offset > position.get(p, 0)}
    if beyond:
        raise RefusedError(
            f"The range ends at {beyond} (partition: offset), beyond the stream, which stands at "
            f"{position} and gets there itself. Nothing was written. End the range there at most."
        )
    earliest = kafka_topics.offsets_at(topic.settings, topic.name, kafka_topics.EARLIEST)
    unknown = sorted((start.keys() | end.keys()) - earliest.keys())
    if unknown:
        raise RefusedError(
            f"The range names the partitions {unknown}; {topic.name} has {sorted(earliest)}. "
            "Nothing was written. Leave them out, or correct them."
        )
    start = {p: max(start.get(p, 0), earliest.get(p, 0)) for p in end}
    end = {p: max(offset, start[p]) for p, offset in end.items()}
    log.info("taking %s from %s to %s", topic.name, start, end)
    chosen = source.read_range(spark, topic.settings, topic.name, start, end)
    return _take(chosen, topic, position, letters_are_stored=False)


def replay(spark: SparkSession, topic: Topic, reason: str | None, since_ms: int) -> Balance:
    """Takes the dead letters that can be decoded now into the table, under their own coordinates.

    ``reason`` leaves all others out, ``since_ms`` (Unix time, in ms) older letters. All stay in
    the dead-letter topic: replayed twice, they change nothing; one that still cannot be decoded
    is counted as dead-lettered and not stored again. A record that the stream has yet to pass is
    left to it, with a line in the log.

    Raises:
        RefusedError: the stream has passed no record that has such a letter; or see
            ``binding.check``.
    """
    settings = topic.settings
    position = stream_position(spark, topic)
    binding.check_bound(spark, topic)
    if not kafka_topics.exists(settings, topic.dead_letters):
        raise RefusedError(
            f"{topic.name} has no dead letters: {topic.dead_letters} does not exist."
        )
    start = kafka_topics.offsets_at(settings, topic.dead_letters, kafka_topics.EARLIEST)
    end = kafka_topics.offsets_at(settings, topic.dead_letters, kafka_topics.LATEST)
    letters = source.read_range(spark, settings, topic.dead_letters, start, end)
    wanted: Column = F.col("timestamp") >= F.timestamp_millis(F.lit(since_ms))
    if reason:
        wanted &= dead_letters.reason() == reason
    records = dead_letters.original_records(letters.where(wanted))
    records = records.where(F.col("topic") == topic.name)
    ends = F.create_map(*(F.lit(n).cast("long") for pair in position.items() for n in pair))
    is_ahead = F.col("offset") >= F.coalesce(F.try_element_at(ends, "partition"), F.lit(0))
    [ahead, oldest] = records.agg(  # type: ignore[misc]
        F.count_if(is_ahead), F.unix_millis(F.min(F.when(~is_ahead, F.col("timestamp"))))
    ).first()
    if ahead:
        log.warning("left out %d letters, since the stream has yet to pass their records", ahead)
    if oldest is None:
        raise RefusedError(f"{topic.dead_letters} has no such letters. Nothing was written.")
    records = records.where(~is_ahead)
    return _take(records, topic, position, letters_are_stored=True)


def _take(chosen: DataFrame, topic: Topic, position: Offsets, letters_are_stored: bool) -> Balance:
    started = time.monotonic()
    fields = read_schema(topic)
    batch = Batch(id=NO_BATCH, ends=position, pipeline="backfill", schema="", first=NO_BATCH)
    counted, read = observe(chosen, read=every())
    decoder = Decoder(chosen.sparkSession, topic, fields)
    decoded, found = observe(decoder.decode(counted), **outcomes())
    done = sink.fill(transform(topic.name, accepted_rows(decoded)), topic)
    letters = Letters(stored=found.get["rejected"])
    if letters.stored and not letters_are_stored:
        rejected = decoder.rejected(chosen, letters.stored)
        letters = dead_letters.send(rejected, batch, topic)
    balance = Balance.of(batch, read.get, found.get, done, letters)
    metrics.publish(balance, topic.name, seconds=time.monotonic() - started)
    return balance
