"""Runs a query per topic in one process: all of them, or none."""

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType

from . import binding, metrics, new_fields, source
from .batch import Batch
from .binding import Binding
from .checkpoint import Checkpoint
from .columns import row_columns
from .compatibility import unread_fields
from .delivery import AFTER_A_FAILURE
from .errors import BatchError, BreakerTripped, PipelineError, StorageError, first_line
from .new_fields import read_schema
from .pipeline import ingest
from .schema import fingerprint
from .settings import Settings, Topic
from .widening import NewField, widened

POLL_S = 0.2
log = logging.getLogger(__name__)


class Stopped(Exception):
    """Ends a query between two batches: the next one was planned, nothing of it was done."""


@dataclass
class Stream:
    """The query of one topic."""

    topic: Topic
    fields: StructType
    checkpoint: Checkpoint
    bound: Binding
    stopping: threading.Event
    """Shared by all streams of the process: no batch begins once it is set."""
    query: StreamingQuery | None = None
    failure: BaseException | None = None
    """What ``ingest`` raised, as it was before Spark wrapped it."""
    ended_early: bool = False
    """The query ended because it was asked to, before a batch that it had planned."""
    waiting: list[NewField] = field(default_factory=list)
    """What the query ended early for: to be taken up before it starts again."""

    def process(self, records: DataFrame, batch_id: int) -> None:
        """Spark's ``foreachBatch`` function."""
        try:
            if self.stopping.is_set():
                raise Stopped
            binding.check(records.sparkSession, self.topic, self.bound)
            batch = self._batch(batch_id)
            metrics.publish_unread(self.topic.name, unread_fields(self.topic, self.fields))
            self._look_for_new_fields()
            log.info("batch %d of %s, up to %s", batch.id, self.topic.name, batch.ends)
            ingest(records, batch, self.topic, self.fields)
        except Stopped:
            self.ended_early = True
            raise
        except BreakerTripped as tripped:
            self.failure = tripped  # the batch is complete: Spark commits it, then all stop
            self.stopping.set()
        except BaseException as error:
            self.failure = error
            raise

    def _look_for_new_fields(self) -> None:
        """Ends the query before this batch where the registry has fields to take up.

        A producer registers a version before it sends, so the batch holds no later one.

        Raises:
            Stopped: there are such fields.
        """
        new = new_fields.waiting(self.topic, self.fields)
        if new:
            self.waiting = new
            raise Stopped("no error: new fields are taken up first, then comes this batch")

    def _batch(self, batch_id: int) -> Batch:
        return Batch(
            id=batch_id,
            ends=self.checkpoint.ends(batch_id),
            pipeline=f"{self.checkpoint.identity()}.{self.bound.generation}",
            schema=fingerprint(self.topic, self.fields),
        )

    def is_between_batches(self) -> bool:
        """True when the query waits for its next trigger, or has ended."""
        query = self.query
        return query is None or not query.isActive or not query.status["isTriggerActive"]


def run(
    spark: SparkSession, settings: Settings, stopping: threading.Event, rebind: list[str]
) -> None:
    """Ingests every topic until ``stopping`` is set, a query ends, or all is read (availableNow).

    ``rebind`` names topics of which whatever a start-up check would refuse is accepted.

    Raises:
        RefusedError: a start-up check said no and no query was started; or a batch met a topic or
            a table that was replaced, and nothing of it was written.
        BatchError: a batch failed; the others were stopped between two batches.
        BreakerTripped: too many records of a batch were rejected; that batch is complete.
    """
    streams = [
        _prepare(spark, settings.topic_settings(name), stopping, name in rebind)
        for name in settings.topics
    ]
    try:
        for stream in streams:
            stream.query = _start(spark, stream)
        _watch(spark, streams, stopping)
    finally:
        stopping.set()
        _stop(streams)
    _raise_failure(streams)


def _prepare(spark: SparkSession, topic: Topic, stopping: threading.Event, rebind: bool) -> Stream:
    with _said_if_unusable(topic):
        fields = read_schema(topic)  # and what was taken up, which the checkpoint remembers
    columns = row_columns(spark, topic, fields)
    with _said_if_unusable(topic):
        bound = binding.bind(spark, topic, columns, rebind)
    checkpoint = Checkpoint(spark, topic.checkpoint, topic.name)
    return Stream(topic, fields, checkpoint, bound, stopping)


@contextmanager
def _said_if_unusable(topic: Topic) -> Iterator[None]:
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        raise StorageError(
            f"The table {topic.location} or the checkpoint {topic.checkpoint} cannot be used: "
            f"{first_line(error)}. No batch was begun. See that both can be reached and written, "
            "then start again."
        ) from error


def _start(spark: SparkSession, stream: Stream) -> StreamingQuery:
    topic = stream.topic
    trigger = topic.settings.trigger
    writer = (
        source.read_stream(spark, topic, stream.bound.starting_offsets)
        .writeStream.queryName(topic.name)
        .option("checkpointLocation", topic.checkpoint)
        .foreachBatch(stream.process)
    )
    if trigger == "availableNow":
        writer = writer.trigger(availableNow=True)
    else:
        writer = writer.trigger(processingTime=trigger)
    log.info("ingesting %s into %s", topic.name, topic.location)
    return writer.start()


def _take_up(spark: SparkSession, stream: Stream) -> None:
    """Starts a query again that ended before a batch, with more fields: it does that batch first.

    A crash in here is harmless: a column without its field is found here the next time.

    Raises:
        RefusedError: the table has such a column, of another type; nothing was written.
    """
    topic, new = stream.topic, stream.waiting
    for each in new:
        log.info("taking up the field %s of version %d for %s", each.name, each.version, topic.name)
    fields = widened(topic.schema_path, stream.fields, new)
    with _said_if_unusable(topic):
        stream.bound = binding.bind(spark, topic, row_columns(spark, topic, fields), rebind=False)
        new_fields.remember(topic, new)
    stream.fields, stream.waiting, stream.ended_early = fields, [], False
    stream.query = _start(spark, stream)


def _watch(spark: SparkSession, streams: list[Stream], stopping: threading.Event) -> None:
    """Returns when all have ended, one has failed, or the process is asked to stop."""
    while not stopping.is_set():
        ended = [stream for stream in streams if stream.query and not stream.query.isActive]
        for stream in [stream for stream in ended if stream.waiting]:
            _take_up(spark, stream)
            ended.remove(stream)
        if len(ended) == len(streams) or any(_error(stream) for stream in ended):
            return
        for stream in streams:
            if stream.query:
                metrics.publish_lag(stream.topic.name, stream.query.lastProgress)
        time.sleep(POLL_S)


def _stop(streams: list[Stream]) -> None:
    """Ends every query between two batches; the batch in hand is finished first."""
    waiting = [stream for stream in streams if stream.query is not None]
    if any(stream.query and stream.query.isActive for stream in waiting):
        log.info("stopping: the batches in hand are finished first")
    while waiting:
        for stream in [stream for stream in waiting if stream.is_between_batches()]:
            if stream.query is not None:
                stream.query.stop()
            waiting.remove(stream)
        time.sleep(POLL_S if waiting else 0)


def _raise_failure(streams: list[Stream]) -> None:
    """Raises what ended the process; of several errors one that left a batch unfinished."""
    errors = [error for stream in streams if (error := _failure(stream))]
    errors.sort(key=lambda error: isinstance(error, BreakerTripped))
    for error in errors[1:]:
        log.error("%s", error)
    if errors:
        raise errors[0]


def _failure(stream: Stream) -> PipelineError | None:
    error = stream.failure or (None if stream.ended_early else _error(stream))
    if error is None or isinstance(error, PipelineError):
        return error
    failed = BatchError(
        f"The query of {stream.topic.name} failed: {first_line(error)}. Its batch in hand is not "
        f"committed; rows of it may be in {stream.topic.location} already. Mend that, then "
        f"{AFTER_A_FAILURE}."
    )
    failed.__cause__ = error
    return failed


def _error(stream: Stream) -> BaseException | None:
    return stream.query.exception() if stream.query else None
