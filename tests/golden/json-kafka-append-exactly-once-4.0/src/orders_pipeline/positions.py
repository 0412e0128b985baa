"""Up to where the rows of a topic are in its output topic, as the brokers know it.

A consumer group without members stands for the output topic. Its offsets are those of the source
topic, and the text that Kafka keeps beside each one says which batch brought the rows there.
"""

import json
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, NamedTuple

from confluent_kafka import IsolationLevel, KafkaError, KafkaException
from confluent_kafka import TopicPartition as Committed

from . import kafka, kafka_topics
from .batch import Batch, Offsets, offsets_to_json
from .errors import NoAnswerError
from .settings import Topic

HEADER = "ingest."
"""How the headers of an output record begin that say where its source is."""
PASSES_BY = (
    KafkaError.UNSTABLE_OFFSET_COMMIT,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
    KafkaError._TIMED_OUT,
)
"""Answers while a transaction is open, and for a while after a broker started or was lost."""
OPEN_S = 90
"""An open transaction hides the offsets that it would change. If its process died, the brokers end
it after 60 s (``transactions.py``), and look for such ones every 10 s."""
ANSWER_S = 10
HEADROOM_BYTES = 1024
"""Room in an output record for our own headers and framing."""


class Position(NamedTuple):
    """Of one source partition: where its rows end in the output topic, and who brought them."""

    offset: int
    """The rows of all records before it were sent, or refused."""
    pipeline: str
    batch: int
    schema: str
    sent_at: str
    refused: dict[str, list[int]]
    """Why rows of that batch were not sent, and the offsets of those."""


def group(topic: Topic) -> str:
    """The consumer group; not the one that shows the pipeline's progress to lag tools."""
    return f"ingest.{topic.location}"


def to_commit(topic: str, partition: int, position: Position) -> Committed:
    """A position as Kafka commits it; the text is limited to 4096 bytes by default."""
    about = position._asdict()
    offset = about.pop("offset")
    return Committed(topic, partition, offset, metadata=json.dumps(about))


def from_committed(committed: Committed) -> Position | None:
    """The reverse; None where nothing, or something of others, is committed."""
    try:
        about = json.loads(committed.metadata or "")
        return Position(offset=committed.offset, **about)
    except (ValueError, TypeError):
        return None


def all_held(topic: Topic) -> dict[int, Position]:
    """For each source partition its position, whichever pipeline it is of."""
    return _positions(topic, range(kafka_topics.partition_count(topic.settings, topic.name)))


def _positions(topic: Topic, partitions: Iterable[int]) -> dict[int, Position]:
    committed = _committed(topic, partitions)
    positions = {each.partition: from_committed(each) for each in committed}
    return {partition: position for partition, position in positions.items() if position}


def _committed(topic: Topic, partitions: Iterable[int]) -> list[Committed]:
    """What the group has committed; asked for again while its broker is not ready to say it.

    Of a consumer, not of the AdminClient: to that the answer that the group has moved to another
    broker is the end of the process (librdkafka 2.16: a null pointer in ``handle_OffsetFetch``).

    Raises:
        NoAnswerError: a transaction hides it and does not end, or the brokers do not say it.
    """
    name, settings = group(topic), topic.settings
    asked = [Committed(topic.name, partition) for partition in partitions]
    consumer = kafka.consumer(settings.kafka.bootstrap_servers, name)
    began = time.monotonic()
    while True:
        try:
            # By default none of a transaction that may still be rolled back.
            found: list[Committed] = consumer.committed(asked, ANSWER_S)
            for each in found:
                fail_if_hidden(each)
            return found
        except KafkaException as error:
            said = consumer.poll(0)  # where no broker may be found for the group, this says why
            why = (said.error() if said else None) or error.args[0]
            if why.code() not in PASSES_BY or time.monotonic() - began > OPEN_S:
                raise NoAnswerError(
                    f"Up to where the rows of {topic.name} are in {topic.location}, the brokers "
                    f"do not say: {why.str()}. Nothing was written. They have to be up, to let "
                    f"this client read the group {name}, and to have no transaction open in it: "
                    f"end a process that has had one for {OPEN_S} s. Then start again."
                ) from None
            time.sleep(0.2)


def fail_if_hidden(committed: Committed) -> None:
    """Tells a partition of which the brokers do not say the offset from one that has none.

    Raises:
        KafkaException: why they do not; ``UNSTABLE_OFFSET_COMMIT`` while a transaction hides it.
    """
    if committed.error:
        raise KafkaException(committed.error)


def wait_for_open(topic: Topic, names: Iterable[str]) -> None:
    """Returns once who reads committed records reads all that these topics hold by now.

    A transaction that is open, whoever has it, hides what others have sent after it.

    Raises:
        NoAnswerError: one stays open, or the brokers do not answer.
    """
    settings, deadline = topic.settings, time.monotonic() + OPEN_S

    def readable(name: str, partitions: Iterable[int]) -> Offsets:
        committed = IsolationLevel.READ_COMMITTED
        return kafka_topics.list_offsets(settings, name, partitions, kafka_topics.LATEST, committed)

    for name in names:
        ends = kafka_topics.offsets_at(settings, name, kafka_topics.LATEST)
        while any(end < ends[partition] for partition, end in readable(name, ends).items()):
            if time.monotonic() > deadline:
                raise NoAnswerError(
                    f"What {name} holds is not to be read: a transaction in it has been open for "
                    f"{OPEN_S} s. Nothing was written. End the process that has it open, then run "
                    "this again."
                )
            time.sleep(0.5)


def held(topic: Topic, batch: Batch) -> dict[int, Position]:
    """The positions in the partitions of *batch* that its pipeline brought about."""
    found = _positions(topic, batch.ends)
    return {partition: each for partition, each in found.items() if each.pipeline == batch.pipeline}


def behind(held: dict[int, Position], batch: Batch) -> list[int]:
    """The source partitions of which the output topic lacks something of the batch."""
    ends: Offsets = {partition: position.offset for partition, position in held.items()}
    return [partition for partition, end in batch.ends.items() if ends.get(partition, 0) < end]


def label(held: dict[int, Position], all_held: dict[int, Position]) -> dict[str, Any]:
    """The newest batch of the positions *held*, as ``Batch.label`` has it.

    Its ends are those of *all_held*: the group has one position for each source partition, and who
    goes on in one of them has to in each.
    """
    newest = max(held.values(), key=lambda position: position.batch)
    ends = offsets_to_json({partition: each.offset for partition, each in all_held.items()})
    return {
        "pipeline": newest.pipeline,
        "batch": newest.batch,
        "ends": ends,
        "schema": newest.schema,
    }


def now() -> str:
    """The time, in UTC, as ISO 8601 has it."""
    return datetime.now(UTC).isoformat()
