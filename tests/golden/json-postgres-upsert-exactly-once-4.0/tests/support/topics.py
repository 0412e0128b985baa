"""Topics for tests: create one, put records in, read back what is there."""

import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions, NewTopic


class Record(NamedTuple):
    """One record as it is stored, byte for byte; ``timestamp_ms`` since the epoch.

    ``headers`` has the last of each name, ``all_headers`` every one in order.
    """

    key: bytes | None
    value: bytes | None
    headers: dict[str, bytes | None]
    partition: int
    offset: int
    timestamp_ms: int
    all_headers: list[tuple[str, bytes | None]]


def create_topic(
    bootstrap_servers: str, name: str, partitions: int = 2, config: Mapping[str, str] | None = None
) -> None:
    """Create a topic and return once every partition can be written to."""
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    admin.create_topics([NewTopic(name, partitions, 1, config=dict(config or {}))])[name].result()

    def ready() -> bool:
        found = admin.list_topics(timeout=10).topics.get(name)
        leaders = [each.leader for each in found.partitions.values()] if found else []
        return len(leaders) == partitions and min(leaders) >= 0

    wait_until(ready, 30, f"{name} has a leader for each of {partitions} partitions")


def delete_topic(bootstrap_servers: str, name: str) -> None:
    """Delete a topic and return once the broker no longer lists it."""
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    admin.delete_topics([name])[name].result()
    wait_until(lambda: name not in admin.list_topics(timeout=10).topics, 30, f"{name} is deleted")


def produce(bootstrap_servers: str, topic: str, records: Iterable[tuple[Any, ...]]) -> None:
    """Write records, in order within a partition, and return once the broker has them all.

    Args:
        bootstrap_servers: the broker.
        topic: an existing topic.
        records: tuples of (key, value[, headers[, partition[, timestamp_ms]]]), None for what
            is left out. Without a partition the key chooses, as it does for Java's producers.

    Raises:
        KafkaException: if the broker refused a record.
    """
    refused: list[KafkaError] = []

    def on_delivery(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            refused.append(error)

    settings: dict[str, Any] = {
        "bootstrap.servers": bootstrap_servers,
        # In order. An idempotent producer would be too, but waits half a second for its id.
        "acks": "all",
        "max.in.flight": 1,
        "partitioner": "murmur2_random",
        "linger.ms": 20,
        "log_level": 3,
        "message.max.bytes": 16 * 1024 * 1024,
        "delivery.report.only.error": True,
        "on_delivery": on_delivery,
    }
    producer = Producer(settings)
    for key, value, *rest in records:
        headers, partition, timestamp_ms = (*rest, None, None, None)[:3]
        where: dict[str, Any] = {} if partition is None else {"partition": partition}
        when: dict[str, Any] = {} if timestamp_ms is None else {"timestamp": timestamp_ms}
        while True:
            try:
                producer.produce(topic, value, key, headers=headers, **where, **when)
                break
            except BufferError:
                producer.poll(0.1)
    undelivered = producer.flush(60)
    if refused:
        raise KafkaException(refused[0])
    if undelivered:
        raise TimeoutError(f"{undelivered} records were not delivered to {topic} within 60 s.")


def read_topic(
    bootstrap_servers: str,
    topic: str,
    isolation_level: str = "read_committed",
    timeout_s: float = 60,
) -> list[Record]:
    """Every record from the beginning to the current end, by partition and offset.

    The broker says where a partition ends, so offsets without a record (the marker of a
    transaction, what an abort or compaction took away) are passed over.
    """
    consumer = _consumer(bootstrap_servers, isolation_level)
    records: list[Record] = []
    try:
        unread = set(_partitions(consumer, topic))
        consumer.assign([TopicPartition(topic, partition, 0) for partition in unread])
        deadline = time.monotonic() + timeout_s
        while unread and time.monotonic() < deadline:
            for message in consumer.consume(10_000, timeout=0.05):
                error = message.error()
                if error is None:
                    records.append(_record(message))
                elif error.code() == KafkaError._PARTITION_EOF:
                    unread.discard(message.partition() or 0)
                else:
                    raise KafkaException(error)
    finally:
        consumer.close()
    if unread:
        raise TimeoutError(f"{topic}: partitions {unread} were not read within {timeout_s:g} s.")
    return sorted(records, key=lambda record: (record.partition, record.offset))


def wait_until(condition: Callable[[], bool], timeout_s: float, what: str) -> None:
    """Return once the condition holds; after ``timeout_s``, a TimeoutError that says ``what``."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"Not within {timeout_s:g} s: {what}.")
        time.sleep(0.05)


def _consumer(bootstrap_servers: str, isolation_level: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": f"test-{uuid.uuid4()}",
            "isolation.level": isolation_level,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 50,
        }
    )


def _partitions(consumer: Consumer, topic: str) -> list[int]:
    found = consumer.list_topics(topic, timeout=10).topics[topic]
    if found.error is not None:
        raise KafkaException(found.error)
    return sorted(found.partitions)


def _record(message: Any) -> Record:
    # Any: the client's types call each part optional, which it is only for an error.
    return Record(
        message.key(),
        message.value(),
        dict(message.headers() or []),
        message.partition(),
        message.offset(),
        message.timestamp()[1],
        message.headers() or [],
    )


def add_partitions(bootstrap_servers: str, name: str, count: int) -> None:
    """Lets a topic grow to *count* partitions and waits until its clients can see them."""
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    admin.create_partitions([NewPartitions(name, count)])[name].result(30)
    wait_until(
        lambda: len(admin.list_topics(name, 30).topics[name].partitions) == count,
        30,
        f"the topic {name} has {count} partitions",
    )
