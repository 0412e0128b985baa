"""A real schema registry for tests and the demo, in a Java virtual machine of its own: Apicurio.

It speaks Confluent's API and keeps all in memory. As with Kafka's jars, it comes from Maven Central
into ``~/.cache`` the first time (142 MB).

The environment may name another: ``SCHEMA_REGISTRY_URL``, one that runs already.
"""

import atexit
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.error import SchemaRegistryError
from httpx2 import TransportError

from .kafka_jvm import JvmProcess, fetched, quick_java, say

REGISTRY_VERSION = "2.6.13.Final"

_API = "/apis/ccompat/v7"

_IVY_MODULE = """\
<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">
  <info organisation="tests" module="registry"/>
  <dependencies>
    <dependency org="io.apicurio" name="apicurio-registry-app" rev="{version}" transitive="false">
      <artifact name="apicurio-registry-app" type="tar.gz" ext="tar.gz" m:classifier="all"/>
    </dependency>
  </dependencies>
</ivy-module>
"""


class RegistryUnavailableError(RuntimeError):
    """No schema registry could be started or reached; the message says what happened."""


@dataclass(frozen=True)
class Registry:
    """A schema registry that answers.

    Attributes:
        url: where its Confluent-compatible API is.
    """

    url: str
    _process: JvmProcess | None = None

    def stop(self) -> None:
        """End it, and all that it holds, if it was started here; harmless when repeated."""
        if self._process:
            self._process.stop()


@contextmanager
def start_registry(timeout_s: float = 90) -> Iterator[Registry]:
    """A running schema registry, stopped at the end of the block; empty, if it was started here.

    Raises:
        RegistryUnavailableError: if there is none within ``timeout_s``; never a skipped test.
    """
    if url := os.environ.get("SCHEMA_REGISTRY_URL"):
        _wait_until_it_answers(url, None, time.monotonic() + timeout_s)
        yield Registry(url)
        return
    process = _in_jvm()
    atexit.register(process.stop)
    began = time.monotonic()
    deadline = began + timeout_s
    try:
        url = _wait_until_it_listens(process, deadline)
        _wait_until_it_answers(url, process, deadline)
        say(f"The schema registry answers at {url} after {time.monotonic() - began:.1f} s.")
        yield Registry(url, process)
    finally:
        process.stop()
        atexit.unregister(process.stop)


def _in_jvm() -> JvmProcess:
    try:
        module = _IVY_MODULE.format(version=REGISTRY_VERSION)
        folder = fetched("apicurio-registry", REGISTRY_VERSION, module)
        say("Starting a schema registry in a Java virtual machine ...")
        # Port 0: a free one, which its log names once it listens.
        options = ["-Xmx512m", "-Dquarkus.http.host=127.0.0.1", "-Dquarkus.http.port=0"]
        jar = folder / f"apicurio-registry-app-{REGISTRY_VERSION}-runner.jar"
        command = [*quick_java(*options), "-jar", str(jar)]
        process = JvmProcess("registry")
        process.start(command)
    except RuntimeError as error:
        raise RegistryUnavailableError(f"No schema registry could be started: {error}") from error
    return process


def _wait_until_it_listens(process: JvmProcess, deadline: float) -> str:
    while time.monotonic() < deadline:
        _raise_if_exited(process)
        if found := re.search(r"Listening on: (http://\S+)", process.log()):
            return found[1] + _API
        time.sleep(0.05)
    log = process.log()[-2000:]
    raise RegistryUnavailableError(f"The schema registry did not start in time. Its log: {log}")


def _wait_until_it_answers(url: str, process: JvmProcess | None, deadline: float) -> None:
    with SchemaRegistryClient({"url": url, "max.retries": 0, "timeout": 2}) as client:
        problem = "no time was left"
        while time.monotonic() < deadline:
            if process:
                _raise_if_exited(process)
            try:
                client.get_schema_types()
                return
            except (TransportError, SchemaRegistryError) as error:
                problem = f"{type(error).__name__}: {error}"
            time.sleep(0.05)
    raise RegistryUnavailableError(f"No schema registry answered at {url} in time: {problem}")


def _raise_if_exited(process: JvmProcess) -> None:
    if (log := process.failure()) is not None:
        raise RegistryUnavailableError(f"The schema registry exited while it started: {log}")
