"""Questions to the brokers about topics: their ids, partitions, ends and limits."""

import logging
import time
from collections.abc import Iterable

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka import TopicPartition as Position
from confluent_kafka.admin import ConfigResource, NewPartitions, NewTopic, OffsetSpec

from .batch import Offsets
from .errors import NoAnswerError, RefusedError
from .kafka import admin
from .settings import Settings

TIMEOUT_S = 30
LARGEST_BYTES = 1_000_000_000
"""librdkafka sends no larger record, whatever the topic takes."""
EARLIEST = OffsetSpec.earliest()
LATEST = OffsetSpec.latest()
at_time = OffsetSpec.for_timestamp
"""The first record at or after a Unix time, in ms."""
log = logging.getLogger(__name__)


def topic_id(settings: Settings, topic: str) -> str:
    """The id that the brokers gave the topic when it was made: a new one of the same name differs.

    Raises:
        RefusedError: no such topic.
        NoAnswerError: no broker answers.
    """
    return str(_describe(settings, topic).topic_id)


def partition_count(settings: Settings, topic: str) -> int:
    """How many partitions the topic has.

    Raises:
        RefusedError: no such topic.
        NoAnswerError: no broker answers.
    """
    return len(_describe(settings, topic).partitions)


def exists(settings: Settings, topic: str) -> bool:
    """True when there is such a topic.

    Raises:
        NoAnswerError: no broker answers.
    """
    brokers = admin(settings.kafka.bootstrap_servers)
    try:
        return topic in brokers.list_topics(timeout=TIMEOUT_S).topics
    except KafkaException as error:
        raise _no_answer(settings, topic, error) from error


def offsets_at(settings: Settings, topic: str, spec: OffsetSpec) -> Offsets:
    """The offset in each partition that answers ``spec``; the end where none does.

    Raises:
        RefusedError: no such topic.
        NoAnswerError: no broker answers, or the topic may not be read.
    """
    partitions = range(partition_count(settings, topic))
    found = list_offsets(settings, topic, partitions, spec)
    missing = [partition for partition, offset in found.items() if offset < 0]
    if missing:
        found |= list_offsets(settings, topic, missing, LATEST)
    return found


def list_offsets(
    settings: Settings, topic: str, partitions: Iterable[int], spec: OffsetSpec
) -> Offsets:
    """The offset in each of these partitions that answers ``spec``; negative where none does.

    Raises:
        NoAnswerError: no broker answers, or the topic may not be read.
    """
    wanted = {Position(topic, partition): spec for partition in partitions}
    brokers = admin(settings.kafka.bootstrap_servers)
    answers = brokers.list_offsets(wanted, request_timeout=TIMEOUT_S)
    try:
        return {
            position.partition: answer.result(TIMEOUT_S + 5).offset
            for position, answer in answers.items()
        }
    except KafkaException as error:
        raise _no_answer(settings, topic, error) from error


def ensure_topic(settings: Settings, topic: str, partitions: int) -> None:
    """Makes a topic, or lets it grow, so that it has at least this many partitions.

    Raises:
        NoAnswerError: no broker answers.
        KafkaException: the brokers refuse.
    """
    brokers = admin(settings.kafka.bootstrap_servers)
    if not exists(settings, topic):
        log.info("making the topic %s with %d partitions", topic, partitions)
        new = NewTopic(topic, num_partitions=partitions)
        made = brokers.create_topics([new], request_timeout=TIMEOUT_S)
        _settle(made[topic], KafkaError.TOPIC_ALREADY_EXISTS)
        return
    existing = partition_count(settings, topic)
    if existing < partitions:
        log.info("the topic %s grows from %d to %d partitions", topic, existing, partitions)
        more = NewPartitions(topic, partitions)
        grown = brokers.create_partitions([more], request_timeout=TIMEOUT_S)
        _settle(grown[topic], KafkaError.INVALID_PARTITIONS)


def max_message_bytes(settings: Settings, topic: str) -> int:
    """The largest record batch that the topic takes and a client sends, in bytes.

    Raises:
        NoAnswerError: no broker knows the topic, or none answers.
    """
    return min(int(_setting(settings, topic, "max.message.bytes")), LARGEST_BYTES)


def _setting(settings: Settings, topic: str, name: str) -> str:
    """Of a topic that was just made, asked for again: not every broker knows it at once."""
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    brokers = admin(settings.kafka.bootstrap_servers)
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        try:
            asked = brokers.describe_configs([resource], request_timeout=TIMEOUT_S)
            found = asked[resource].result(TIMEOUT_S + 5)
            return str(found[name].value)
        except KafkaException as error:
            unknown = error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART
            if not unknown or time.monotonic() > deadline:
                raise _no_answer(settings, topic, error) from error
            time.sleep(0.1)


def _describe(settings: Settings, topic: str):  # type: ignore[no-untyped-def]  # a C type
    brokers = admin(settings.kafka.bootstrap_servers)
    described = brokers.describe_topics(TopicCollection([topic]), request_timeout=TIMEOUT_S)[topic]
    try:
        return described.result(TIMEOUT_S + 5)
    except KafkaException as error:
        if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            raise RefusedError(
                f"The topic {topic!r} does not exist at {settings.kafka.bootstrap_servers}. "
                "Nothing was written. Create it, or correct its name."
            ) from error
        raise _no_answer(settings, topic, error) from error


def _no_answer(settings: Settings, topic: str, error: KafkaException) -> NoAnswerError:
    return NoAnswerError(
        f"No answer about the topic {topic!r} from {settings.kafka.bootstrap_servers}: "
        f"{error.args[0].str()}. Nothing was written. Check kafka.bootstrap_servers, that the "
        "brokers are up and that they let this client in, then start again."
    )


def _settle(future, harmless: int) -> None:  # type: ignore[no-untyped-def]  # a Future of None
    try:
        future.result(TIMEOUT_S + 5)
    except KafkaException as error:
        if error.args[0].code() != harmless:
            raise
