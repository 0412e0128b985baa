"""A Kafka broker in a Java virtual machine of its own, for machines without a Docker engine.

The jars come from Maven Central by way of the Ivy inside PySpark, once, into ``~/.cache``.
"""

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

KAFKA_VERSION = "4.1.0"

_PROGRESS_S = 3
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


class JvmProcess:
    """A Java process with its log, and its data if it has any, in a temporary folder."""

    def __init__(self, name: str) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix=f"{name}-"))
        self._log = self._folder / f"{name}.log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, command: list[str]) -> None:
        """Run the command in its folder; what it starts is not yet up on return."""
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self._folder)

    @property
    def pid(self) -> int:
        """What the machine knows it by, once it was started."""
        assert self._process
        return self._process.pid

    def log(self) -> str:
        """What it has written so far."""
        return self._log.read_text(errors="replace")

    def failure(self) -> str | None:
        """The end of its log if it has exited, else None."""
        if self._process is None or self._process.poll() is None:
            return None
        return self.log()[-2000:]

    def stop(self) -> None:
        """End the process and remove its data; harmless when repeated."""
        if self._process is not None and self._process.poll() is None:
            # Nothing in here outlives the test, so there is no state worth an orderly shutdown.
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)


class KafkaJvm(JvmProcess):
    """One broker process with its data in a temporary folder."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        """Format the storage and start the broker; it is not yet up on return.

        Raises:
            RuntimeError: where Java or the jars are missing, or the settings are refused.
        """
        java = quick_java("-Xmx1g", "-Dlog4j2.level=WARN", "-cp", str(kafka_jars() / "*"))
        super().__init__("kafka")
        properties = self._folder / "server.properties"
        lines = {**settings, "log.dirs": str(self._folder / "data")}
        properties.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
        storage = ["kafka.tools.StorageTool", "format", "-t", _CLUSTER_ID, "-c", str(properties)]
        self._command = [*java, "kafka.Kafka", str(properties)]
        try:
            _run([*java, *storage])
            self.start(self._command)
        except BaseException:
            self.stop()
            raise

    def restart(self) -> None:
        """Kill the broker and start it again, under its port and on its data."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self.start(self._command)


def java_command() -> str:
    """The ``java`` of ``JAVA_HOME``, else of the PATH."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which(str(Path(home, "bin", "java"))) if home else shutil.which("java")
    if found is None:
        raise RuntimeError("No Java found: install a Java 17 runtime, or set JAVA_HOME to one.")
    return found


def quick_java(*options: str) -> list[str]:
    """A command line of Java that starts quickly, which a test wants more than speed later."""
    return [java_command(), "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", *options]


def say(line: str) -> None:
    """Tell whoever watches what takes time."""
    print(line, file=sys.stderr, flush=True)


def kafka_jars() -> Path:
    """The folder of the broker's jars, fetched the first time."""
    return fetched("kafka", KAFKA_VERSION, _IVY_MODULE.format(version=KAFKA_VERSION))


def fetched(name: str, version: str, ivy_module: str) -> Path:
    """The folder of what an Ivy module depends on, archives unpacked; fetched the first time.

    Raises:
        RuntimeError: where Java or PySpark is missing, or Ivy cannot fetch it.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", f"{name}-for-tests")
    folder = cache / version
    if folder.is_dir():
        return folder
    say(f"Fetching {name} {version} into {folder} ...")
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as work:
        settings, module = Path(work, "ivysettings.xml"), Path(work, "ivy.xml")
        got = Path(work, "got")
        settings.write_text(_IVY_SETTINGS.format(cache=Path(work, "ivy")))
        module.write_text(ivy_module)
        ivy = [java_command(), "-jar", str(_ivy_jar()), "-settings", str(settings)]
        ivy += ["-ivy", str(module), "-retrieve", f"{got}/[artifact]-[revision].[ext]"]
        with _growth_said(Path(work, "ivy")):
            _run(ivy)
        for archive in got.glob("*.tar.gz"):
            _run(["tar", "-xzf", str(archive), "-C", str(got)])
            archive.unlink()
        # One rename, so that a second process never sees half of it.
        try:
            got.rename(folder)
        except OSError:
            if not folder.is_dir():
                raise
    return folder


def _ivy_jar() -> Path:
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise RuntimeError("PySpark is not installed; the Ivy in it fetches what the tests run on.")
    return next(Path(spec.origin).parent.glob("jars/ivy-*.jar"))


@contextmanager
def _growth_said(folder: Path) -> Iterator[None]:
    """Says every few seconds how much there is in a folder, for as long as the block takes."""
    done = threading.Event()

    def watch() -> None:
        while not done.wait(_PROGRESS_S):
            with suppress(FileNotFoundError):  # a download is renamed when it is complete
                sizes = [path.stat().st_size for path in folder.rglob("*")]
                say(f"... {sum(sizes) // 1_000_000} MB so far")

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{command[0]} failed: {(done.stdout + done.stderr)[-2000:]}")
