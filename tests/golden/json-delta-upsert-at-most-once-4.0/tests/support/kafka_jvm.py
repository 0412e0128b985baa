"""A Kafka broker in a Java virtual machine of its own, for machines without a Docker engine.

The jars come from Maven Central by way of the Ivy inside PySpark, once, into ``~/.cache``.
``python kafka_jvm.py FOLDER`` copies them to a folder.
"""

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

KAFKA_VERSION = "4.1.0"

_CLUSTER_ID = "5L6g3nShT-eMCtK--X86sw"

# Of our own, since Ivy's defaults look into ~/.m2 first and fail on a pom there without its jar.
_IVY_SETTINGS = """\
<ivysettings>
  <settings defaultResolver="central"/>
  <caches defaultCacheDir="{cache}"/>
  <resolvers><ibiblio name="central" m2compatible="true"/></resolvers>
</ivysettings>
"""

# With a backend for the broker's log, without which a failed start would say nothing.
_IVY_MODULE = """\
<ivy-module version="2.0">
  <info organisation="tests" module="kafka"/>
  <dependencies>
    <dependency org="org.apache.kafka" name="kafka_2.13" rev="{version}" conf="default"/>
    <dependency org="org.apache.logging.log4j" name="log4j-slf4j-impl" rev="2.24.3" conf="default"/>
  </dependencies>
</ivy-module>
"""


class KafkaJvm:
    """One broker process with its data in a temporary folder."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        """Format the storage and start the broker; it is not yet up on return.

        Raises:
            RuntimeError: where Java or the jars are missing, or the settings are refused.
        """
        classpath = str(kafka_jars() / "*")
        self._folder = Path(tempfile.mkdtemp(prefix="kafka-"))
        self._log = self._folder / "broker.log"
        self._process: subprocess.Popen[bytes] | None = None
        properties = self._folder / "server.properties"
        lines = {**settings, "log.dirs": str(self._folder / "data")}
        properties.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
        # A test wants a quick start more than speed after minutes: one compiler tier is enough.
        java = [java_command(), "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx1g"]
        java += ["-Dlog4j2.level=WARN", "-cp", classpath]
        storage = ["kafka.tools.StorageTool", "format", "-t", _CLUSTER_ID, "-c", str(properties)]
        try:
            _run([*java, *storage])
            with self._log.open("wb") as log:
                self._process = subprocess.Popen(
                    [*java, "kafka.Kafka", str(properties)], stdout=log, stderr=log
                )
        except BaseException:
            self.stop()
            raise

    def failure(self) -> str | None:
        """The end of the broker's log if it has exited, else None."""
        if self._process is None or self._process.poll() is None:
            return None
        return self._log.read_text(errors="replace")[-2000:]

    def stop(self) -> None:
        """End the process and remove its data; harmless when repeated."""
        if self._process is not None and self._process.poll() is None:
            # Nothing in here outlives the test, so there is no state worth an orderly shutdown.
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)


def java_command() -> str:
    """The ``java`` of ``JAVA_HOME``, else of the PATH."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which(str(Path(home, "bin", "java"))) if home else shutil.which("java")
    if found is None:
        raise RuntimeError("No Java found: install a Java 17 runtime, or set JAVA_HOME to one.")
    return found


def kafka_jars() -> Path:
    """The folder of the broker's jars, fetched the first time."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "kafka-for-tests")
    jars = cache / KAFKA_VERSION
    if jars.is_dir():
        return jars
    print(f"Fetching Kafka {KAFKA_VERSION} into {jars}", file=sys.stderr, flush=True)
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as work:
        settings, module = Path(work, "ivysettings.xml"), Path(work, "ivy.xml")
        settings.write_text(_IVY_SETTINGS.format(cache=Path(work, "ivy")))
        module.write_text(_IVY_MODULE.format(version=KAFKA_VERSION))
        ivy = [java_command(), "-jar", str(_ivy_jar()), "-settings", str(settings)]
        ivy += ["-ivy", str(module), "-retrieve", f"{work}/jars/[artifact]-[revision].[ext]"]
        _run(ivy)
        # One rename, so that a second process never sees half of it.
        try:
            Path(work, "jars").rename(jars)
        except OSError:
            if not jars.is_dir():
                raise
    return jars


def _ivy_jar() -> Path:
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise RuntimeError("PySpark is not installed; Kafka's jars are fetched with the Ivy in it.")
    return next(Path(spec.origin).parent.glob("jars/ivy-*.jar"))


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{command[0]} failed: {(done.stdout + done.stderr)[-2000:]}")


if __name__ == "__main__":
    shutil.copytree(kafka_jars(), sys.argv[1])
