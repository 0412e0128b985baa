"""A real Kafka broker for tests and the demo: in a container, else in a JVM of its own.

The environment chooses:
    KAFKA_BROKER  ``container``, ``jvm``, or ``host:port`` of a broker that runs already. Unset: a
                  container where a Docker engine answers and has or pulls the image, else a JVM.
    KAFKA_IMAGE   the container's image, the public ``apache/kafka`` unless set.
"""

import atexit
import os
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from .kafka_container import KafkaContainer, NoContainerError, engine_host, kafka_image
from .kafka_jvm import KafkaJvm, say

RunsIn = Literal["container", "jvm", "elsewhere"]

# One node is the whole cluster, so every internal topic has one replica.
_SETTINGS = {
    "node.id": "1",
    "process.roles": "broker,controller",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "INTERNAL",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "auto.create.topics.enable": "false",
    "message.max.bytes": str(16 * 1024 * 1024),
    # Test data often bears old timestamps, which the usual week of retention would delete.
    "log.retention.ms": "-1",
    # Everybody may do everything, until a test says otherwise of a topic.
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}


class BrokerUnavailableError(RuntimeError):
    """No broker could be started or reached; the message says what happened."""


@dataclass(frozen=True)
class Broker:
    """A broker that answers.

    Attributes:
        bootstrap_servers: its address, as clients on this machine reach it.
        runs_in: ``container`` or ``jvm`` if started here, ``elsewhere`` if it ran already.
        process: what runs it, if it was started here.
        settings: its server.properties, if it was started here.
    """

    bootstrap_servers: str
    runs_in: RunsIn
    process: KafkaContainer | KafkaJvm | None = None
    settings: Mapping[str, str] = field(default_factory=dict)

    def failure(self) -> str | None:
        """The end of its log if it was started here and has exited, else None."""
        return self.process.failure() if self.process else None

    def restart(self) -> None:
        """Kill it, as a machine that is gone, and start it on what it stored; not yet up on return.

        Raises:
            BrokerUnavailableError: it was not started here.
        """
        if not self.process:
            where = self.bootstrap_servers
            raise BrokerUnavailableError(f"{where} was not started here, so it is not killed.")
        self.process.restart()

    def stop(self) -> None:
        """End it and remove its data, if it was started here; harmless when repeated."""
        if self.process:
            self.process.stop()


@contextmanager
def start_broker(timeout_s: float = 90) -> Iterator[Broker]:
    """A running broker, stopped at the end of the block.

    Raises:
        BrokerUnavailableError: if there is none within ``timeout_s``; never a skipped test.
    """
    began = time.monotonic()
    broker = _start(os.environ.get("KAFKA_BROKER", ""))
    atexit.register(broker.stop)
    try:
        wait_until_broker_answers(broker, timeout_s)
        where = f"at {broker.bootstrap_servers} ({broker.runs_in})"
        say(f"Kafka answers {where} after {time.monotonic() - began:.1f} s.")
        yield broker
    finally:
        broker.stop()
        atexit.unregister(broker.stop)


def wait_until_broker_answers(broker: Broker, timeout_s: float) -> None:
    """Return once it serves metadata.

    Raises:
        BrokerUnavailableError: after ``timeout_s``, or as soon as it has exited.
    """
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if (log := broker.failure()) is not None:
            raise BrokerUnavailableError(f"Kafka exited while it started: {log}")
        try:
            if admin.list_topics(timeout=0.5).brokers:
                return
        except KafkaException:
            continue
    where = broker.bootstrap_servers
    raise BrokerUnavailableError(f"No Kafka broker answered at {where} within {timeout_s:g} s.")


def _start(chosen: str) -> Broker:
    if ":" in chosen:
        return Broker(chosen, "elsewhere")
    if chosen not in ("", "container", "jvm"):
        raise BrokerUnavailableError(f"KAFKA_BROKER={chosen} is not container, jvm or host:port.")
    try:
        if chosen != "jvm":
            try:
                return _in_container(engine_host(), free_port())
            except NoContainerError as error:
                if chosen == "container":
                    raise
                say(f"Not in a container: {error}")
        return _in_jvm(free_port())
    except RuntimeError as error:
        raise BrokerUnavailableError(f"Kafka could not be started: {error}") from error


def _in_container(host: str, port: int) -> Broker:
    say(f"Starting Kafka in a container of {kafka_image()} ...")
    # The broker tells clients its own address, so the published port is chosen before the start.
    settings = _settings(":9092", f"{host}:{port}", 9093, 9094)
    process = KafkaContainer(kafka_image(), settings, {9092: port})
    return Broker(f"{host}:{port}", "container", process, settings)


def _in_jvm(port: int) -> Broker:
    say("Starting Kafka in a Java virtual machine ...")
    address = f"127.0.0.1:{port}"
    settings = _settings(address, address, free_port(), free_port())
    return Broker(address, "jvm", KafkaJvm(settings), settings)


def _settings(listen: str, advertise: str, internal: int, controller: int) -> dict[str, str]:
    # The broker reaches itself by INTERNAL: in a container, its clients' address leads nowhere.
    itself = f"INTERNAL://localhost:{internal}"
    return _SETTINGS | {
        "listeners": f"PLAINTEXT://{listen},{itself},CONTROLLER://localhost:{controller}",
        "advertised.listeners": f"PLAINTEXT://{advertise},{itself}",
        "controller.quorum.voters": f"1@localhost:{controller}",
    }


def free_port() -> int:
    """A port of this machine that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("", 0))
        return int(probe.getsockname()[1])
