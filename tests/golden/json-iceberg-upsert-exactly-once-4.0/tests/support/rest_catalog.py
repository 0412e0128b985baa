"""A real REST catalog for tests and the demo, in a Java virtual machine of its own: Iceberg's own.

It is the server that Iceberg tests its clients with; what it knows is in a SQLite file. As with
Kafka's jars, it comes from Maven Central into ``~/.cache`` the first time (212 MB).
"""

import json
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .broker import free_port
from .kafka_jvm import JvmProcess, fetched, quick_java, say

ICEBERG_VERSION = "1.10.0"

_IVY_MODULE = """\
<ivy-module version="2.0">
  <info organisation="tests" module="catalog"/>
  <dependencies>
    <dependency org="org.apache.iceberg" name="iceberg-open-api" rev="{version}" transitive="false">
      <artifact name="iceberg-open-api" type="jar" ext="jar"/>
    </dependency>
  </dependencies>
</ivy-module>
"""


class CatalogUnavailableError(RuntimeError):
    """No catalog could be started; the message says what happened."""


class RestCatalog:
    """The server; what it knows of tables outlives a stop."""

    def __init__(self, folder: Path, warehouse: str) -> None:
        """Lets it answer; ``warehouse`` is where it has the tables put.

        Raises:
            CatalogUnavailableError: it does not start; never a skipped test.
        """
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        self._database = folder / "catalog.db"
        self._properties = {
            "REST_PORT": str(port),
            "URI": f"jdbc:sqlite:{self._database}",
            "WAREHOUSE": warehouse,
            # By the scheme of a path: S3's own way for one in a bucket, Hadoop's for a folder.
            "IO__IMPL": "org.apache.iceberg.io.ResolvingFileIO",
            "S3_PATH__STYLE__ACCESS": "true",
            "S3_RETRY_NUM__RETRIES": "1",
        }
        self.start()

    @property
    def settings(self) -> dict[str, Any]:
        """What ``[table]`` says of it."""
        # What is away is away: a minute of tries shows no more than a few seconds do.
        quick = {"rest.client.socket-timeout-ms": "5000", "s3.retry.num-retries": "1"}
        return {"catalog": "rest", "catalog_uri": self.url, "catalog_properties": quick}

    def start(self, timeout_s: float = 60) -> None:
        """Lets it answer, where it answered before."""
        try:
            folder = fetched(
                "iceberg-rest", ICEBERG_VERSION, _IVY_MODULE.format(version=ICEBERG_VERSION)
            )
            jar = folder / f"iceberg-open-api-{ICEBERG_VERSION}.jar"
            given = [f"CATALOG_{name}={value}" for name, value in self._properties.items()]
            self._process = JvmProcess("catalog")
            self._process.start(["env", *given, *quick_java("-Xmx256m"), "-jar", str(jar)])
        except RuntimeError as error:
            raise CatalogUnavailableError(f"No catalog could be started: {error}") from error
        deadline = time.monotonic() + timeout_s
        while not self._answers():
            log = self._process.failure()
            if log is not None or time.monotonic() > deadline:
                self.stop()
                raise CatalogUnavailableError(f"The catalog does not answer. Its log: {log}")
            time.sleep(0.05)

    def stop(self) -> None:
        """Lets it answer no more; harmless when repeated."""
        self._process.stop()

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/v1/config", timeout=2) as answer:  # noqa: S310
                return bool(json.load(answer))
        except OSError:
            return False


@contextmanager
def start_rest_catalog(warehouse: str | None = None) -> Iterator[RestCatalog]:
    """A catalog without tables, stopped at the end of the block.

    It has them in ``warehouse``, or in a folder that is removed with it.
    """
    with tempfile.TemporaryDirectory(prefix="catalog-") as folder:
        say("Starting an Iceberg REST catalog in a Java virtual machine ...")
        catalog = RestCatalog(Path(folder), warehouse or f"{folder}/tables")
        try:
            yield catalog
        finally:
            catalog.stop()
