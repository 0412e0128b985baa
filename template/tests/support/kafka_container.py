"""A Kafka broker in a container, through testcontainers."""

import os
from collections.abc import Mapping
from typing import Any

from docker.errors import DockerException, NotFound  # type: ignore[import-untyped, unused-ignore]
from testcontainers.core.container import DockerContainer
from testcontainers.core.docker_client import DockerClient

from .kafka_jvm import KAFKA_VERSION


class NoContainerError(RuntimeError):
    """No Docker engine answers, or the image is neither here nor to be pulled."""


class KafkaContainer:
    """One container with one broker, its ports published on the engine's host.

    The image is the public one, or one that reads its environment in the same way.
    """

    def __init__(
        self, image: str, settings: Mapping[str, str], ports: Mapping[int, int], **options: Any
    ) -> None:
        """Start the container; the broker in it is not yet up on return.

        Args:
            image: the image's name.
            settings: server.properties.
            ports: each port to publish, and the one it gets, free on the engine's host.
            options: those of the engine's ``run``.

        Raises:
            NoContainerError: where it does not start.
        """
        self._container = DockerContainer(image).with_kwargs(**options)
        for port, published in ports.items():
            self._container.with_bind_ports(port, published)
        self._container.with_env("KAFKA_HEAP_OPTS", "-Xms256m -Xmx1g")
        for name, value in settings.items():
            self._container.with_env("KAFKA_" + name.upper().replace(".", "_"), value)
        try:
            self._container.start()
        except DockerException as error:
            self.stop()
            raise NoContainerError(
                f"no container of {image} starts ({error}). Name an image that is here in "
                "KAFKA_IMAGE, or set KAFKA_BROKER=jvm."
            ) from error
        except BaseException:
            self.stop()
            raise

    def failure(self) -> str | None:
        """The end of the broker's log if it has exited, else None."""
        container = self._container.get_wrapped_container()
        container.reload()
        if container.status != "exited":
            return None
        return str(container.logs(tail=20).decode(errors="replace"))

    @property
    def id(self) -> str:
        """What the engine knows it by."""
        return str(self._container.get_wrapped_container().id)

    def restart(self) -> None:
        """Kill the broker and start it again, under its port and on its data."""
        container = self._container.get_wrapped_container()
        container.kill()
        container.wait()
        container.start()

    def stop(self) -> None:
        """Remove the container and its data; harmless when repeated."""
        try:
            self._container.stop()
        except NotFound:
            return


def kafka_image() -> str:
    """The image of ``KAFKA_IMAGE``, else the public one."""
    return os.environ.get("KAFKA_IMAGE") or f"apache/kafka:{KAFKA_VERSION}"


def engine_host() -> str:
    """The host under which a published port is reached.

    Raises:
        NoContainerError: where no Docker engine answers.
    """
    try:
        engine = DockerClient()
        engine.client.ping()
        return engine.host()
    except DockerException as error:
        raise NoContainerError(f"no Docker engine answers ({error})") from error
