"""What a broker that was started here refuses for as long as a block runs, or when it is silent."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import docker
from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourcePatternType,
    ResourceType,
)
from confluent_kafka.cimpl import NewTopic

from .broker import Broker, free_port
from .kafka_container import KafkaContainer, kafka_image
from .kafka_jvm import KafkaJvm
from .topics import create_topic, wait_until

LEADER, FOLLOWER = 1, 2
"""Ids of brokers."""


def is_silent(broker: Broker, seconds: float) -> None:
    """Has a broker answer nobody, from now on, for as long."""
    if isinstance(broker.process, KafkaContainer):
        container = docker.from_env().containers.get(broker.process.id)
        container.pause()
        threading.Timer(seconds, container.unpause).start()
    elif broker.process:
        process = broker.process.pid
        os.kill(process, signal.SIGSTOP)
        threading.Timer(seconds, os.kill, (process, signal.SIGCONT)).start()


@contextmanager
def without_permission(broker: Broker, topic: str) -> Iterator[None]:
    """Makes a topic that nobody may write to inside the block; all else stays allowed."""
    create_topic(broker.bootstrap_servers, topic)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})

    def may_write() -> bool:
        topics = TopicCollection([topic])
        described = admin.describe_topics(topics, include_authorized_operations=True)[topic]
        return AclOperation.WRITE in (described.result().authorized_operations or [])

    with _denied(admin, ResourceType.TOPIC, topic, AclOperation.WRITE, may_write):
        yield


@contextmanager
def without_group(broker: Broker, group: str) -> Iterator[None]:
    """Has nobody be told of a consumer group inside the block."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})

    def may_ask() -> bool:
        consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": group})
        try:
            consumer.committed([TopicPartition("any", 0)], 1)
        except KafkaException:
            said = consumer.poll(0)
            error = said.error() if said else None
            return not error or error.code() != KafkaError.GROUP_AUTHORIZATION_FAILED
        finally:
            consumer.close()
        return True

    with _denied(admin, ResourceType.GROUP, group, AclOperation.DESCRIBE, may_ask):
        yield


@contextmanager
def _denied(
    admin: AdminClient,
    kind: ResourceType,
    name: str,
    operation: AclOperation,
    is_allowed: Callable[[], bool],
) -> Iterator[None]:
    where = (kind, name, ResourcePatternType.LITERAL, "User:*", "*")
    rules = [
        AclBinding(*where, AclOperation.ALL, AclPermissionType.ALLOW),
        AclBinding(*where, operation, AclPermissionType.DENY),
    ]
    for made in admin.create_acls(rules).values():
        made.result()
    wait_until(lambda: not is_allowed(), 30, f"{operation.name} is denied on {name}")
    yield
    every = AclBindingFilter(*where, AclOperation.ANY, AclPermissionType.ANY)
    admin.delete_acls([every])[every].result()
    wait_until(is_allowed, 30, f"{operation.name} is allowed on {name}")


@contextmanager
def without_replicas(broker: Broker, topic: str) -> Iterator[None]:
    """Makes a topic that wants two copies of a record, and inside the block can have but one."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    wanted = {"min.insync.replicas": "2"}
    new = NewTopic(topic, 2, replica_assignment=[[LEADER, FOLLOWER]] * 2, config=wanted)

    def is_made() -> bool:
        try:
            admin.create_topics([new])[topic].result()
        except KafkaException as error:
            if error.args[0].code() != KafkaError.INVALID_REPLICA_ASSIGNMENT:
                raise
            return False
        return True

    def have_lost_it() -> bool:
        partitions = admin.list_topics(topic, timeout=10).topics[topic].partitions.values()
        return [each.isrs for each in partitions] == [[LEADER]] * 2

    with _follower(broker):
        wait_until(is_made, 60, "the leader knows its follower")
    wait_until(have_lost_it, 60, "the leader knows that its follower is gone")
    yield
    mended = ConfigEntry("min.insync.replicas", "1", incremental_operation=AlterConfigOpType.SET)
    changed = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[mended])
    admin.incremental_alter_configs([changed])[changed].result()


@contextmanager
def _follower(broker: Broker) -> Iterator[None]:
    """A second broker, which keeps copies for the first; clients never meet it."""
    address = f"INTERNAL://localhost:{free_port()}"
    settings = {
        **broker.settings,
        "node.id": str(FOLLOWER),
        "process.roles": "broker",
        "listeners": address,
        "advertised.listeners": address,
    }
    follower: KafkaContainer | KafkaJvm
    if isinstance(broker.process, KafkaContainer):
        # Inside the network of the other: both are found under localhost.
        network = f"container:{broker.process.id}"
        follower = KafkaContainer(kafka_image(), settings, {}, network_mode=network)
    else:
        follower = KafkaJvm(settings)
    try:
        yield
    finally:
        follower.stop()
