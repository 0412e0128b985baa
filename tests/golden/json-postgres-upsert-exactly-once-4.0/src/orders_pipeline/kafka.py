"""How Spark and librdkafka, which the driver asks what Spark does not tell, reach the brokers."""

import logging
from functools import cache
from typing import Any

from confluent_kafka import Consumer, KafkaException
from confluent_kafka import TopicPartition as Position
from confluent_kafka.admin import AdminClient

from .batch import Offsets
from .settings import Settings

BUFFER_BYTES = 32 * 1024 * 1024
"""What a producer has for records on their way, unless one alone may need more: Kafka's default."""
FETCH = {
    # The default, 500 records a poll, makes reading a third slower.
    "kafka.max.poll.records": "10000",
    # By default a fetch that finds nothing waits half a second for more. Spark asks for a
    # partition's end on the connection of such a fetch, so a task at the end would wait as long.
    "kafka.fetch.max.wait.ms": "10",
    # Records of a transaction that was rolled back were never sent.
    "kafka.isolation.level": "read_committed",
    "includeHeaders": "true",
}
"""Options for every topic that Spark reads."""
log = logging.getLogger(__name__)


def spark_options(settings: Settings) -> dict[str, str]:
    """What Spark's source and sink need to reach the brokers."""
    return {"kafka.bootstrap.servers": settings.kafka.bootstrap_servers}


def read_options(settings: Settings) -> dict[str, str]:
    """What Spark's source needs besides which topics: committed records alone, with headers."""
    return spark_options(settings) | FETCH


def publish_progress(settings: Settings, topic: str, ends: Offsets) -> None:
    """Commits offsets to the consumer group, for lag tools; the pipeline never reads them back.

    Best effort: the checkpoint is what counts, so a failure is a warning in the log.
    """
    positions = [Position(topic, partition, offset) for partition, offset in ends.items()]
    try:
        commit(settings, settings.consumer_group, positions)
    except KafkaException as error:
        log.warning("the progress of %s is not published: %s", topic, error.args[0].str())


def commit(settings: Settings, group: str, positions: list[Position]) -> None:
    """Commits offsets to a consumer group that has no members.

    Raises:
        KafkaException: the brokers refuse.
    """
    client = consumer(settings.kafka.bootstrap_servers, group)
    committed = client.commit(offsets=positions, asynchronous=False)
    for position in committed or []:
        if position.error:
            raise KafkaException(position.error)


def client_options(bootstrap_servers: str) -> dict[str, Any]:
    """What librdkafka's clients need to reach the brokers."""
    # Level 0: what fails is raised; librdkafka's own lines would repeat it every second.
    return {"bootstrap.servers": bootstrap_servers, "log_level": 0}


# A client keeps its connections and answers in the background, so there is one of each.
@cache
def admin(bootstrap_servers: str) -> AdminClient:
    """The client for questions to the brokers."""
    return AdminClient(client_options(bootstrap_servers))


@cache
def consumer(bootstrap_servers: str, group: str) -> Consumer:
    """The client for the offsets of a group, which it never joins."""
    own = {"group.id": group, "enable.auto.commit": False}
    return Consumer(client_options(bootstrap_servers) | own)


def cause(error: Exception) -> str:
    """Kafka's own sentence, without a full stop: not Spark's, nor ours with what was written.

    In Spark's it is the last line of the longest chain of causes.
    """
    own = error.__cause__ if isinstance(error.__cause__, KafkaException) else error
    if isinstance(own, KafkaException):
        return str(own.args[0].str())
    lines = [line.strip() for line in str(error).splitlines()]
    causes = [line for line in lines if "org.apache.kafka" in line and not line.startswith("at ")]
    said = (causes or lines or [type(error).__name__])[-1]
    return said.removeprefix("Caused by: ").removesuffix(".")
