"""What Spark's checkpoint says, and the small files that the pipeline keeps beside it.

Layout, from Spark's ``MicroBatchExecution``: ``metadata`` holds the query's id; ``offsets/<n>`` is
written when batch n is planned, before any of its effects, and ``commits/<n>`` after all of them.
Files go through Hadoop's FileSystem, so a checkpoint may be local or in any store Spark can reach.
"""

import json
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from .batch import Offsets, offsets_from_json
from .errors import RefusedError


class Checkpoint:
    """The checkpoint of one topic's query."""

    def __init__(self, spark: SparkSession, location: str, topic: str) -> None:
        self.location = location
        self.topic = topic
        gateway: Any = spark.sparkContext._gateway
        self._gateway = gateway
        self._jvm = gateway.jvm
        self._configuration = spark._jsc.hadoopConfiguration()
        path = self._jvm.org.apache.hadoop.fs.Path(location)
        self._files = path.getFileSystem(self._configuration)

    def identity(self) -> str | None:
        """The id that Spark gave the query when it first ran; None before that."""
        text = self.read("metadata")
        return None if text is None else str(json.loads(text)["id"])

    def planned(self) -> int | None:
        """The newest batch that was planned; None before the first."""
        return self._newest("offsets")

    def committed(self) -> int | None:
        """The newest batch whose effects are all done; None before the first."""
        return self._newest("commits")

    def ends(self, batch_id: int) -> Offsets:
        """Where batch ``batch_id`` ends: the last line of ``offsets/<n>``, a JSON map by topic.

        Raises:
            RefusedError: the checkpoint has no such batch, or not of this topic.
        """
        text = self.read(f"offsets/{batch_id}")
        by_topic = json.loads(text.strip().splitlines()[-1]) if text else {}
        if self.topic not in by_topic:
            raise RefusedError(
                f"The checkpoint {self.location} does not know where batch {batch_id} of the topic "
                f"{self.topic!r} ends: offsets/{batch_id} is missing or is another topic's. "
                "Nothing was written. Give the topic a checkpoint of its own, or restore that file."
            )
        return offsets_from_json(by_topic[self.topic])

    def committed_ends(self) -> Offsets | None:
        """Where the newest committed batch ends; None before the first."""
        committed = self.committed()
        return None if committed is None else self.ends(committed)

    def read(self, name: str) -> str | None:
        """The text of a file in the checkpoint; None where there is none."""
        path = self._path(name)
        if not self._files.exists(path):
            return None
        stream = self._files.open(path)
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def write(self, name: str, text: str) -> None:
        """Writes a file in the checkpoint, whole or not at all, over one that is there."""
        path, draft = self._path(name), self._path(f"{name}.draft")
        stream = self._files.create(draft, True)
        stream.write(bytearray(text.encode()))
        stream.hsync()
        stream.close()
        options = self._jvm.org.apache.hadoop.fs.Options.Rename
        overwrite = self._gateway.new_array(options, 1)
        overwrite[0] = options.OVERWRITE
        context = self._jvm.org.apache.hadoop.fs.FileContext
        context.getFileContext(path.toUri(), self._configuration).rename(draft, path, overwrite)

    def delete(self, name: str) -> None:
        """Removes a file from the checkpoint, if it is there."""
        self._files.delete(self._path(name), False)

    def _newest(self, folder: str) -> int | None:
        try:
            found = self._files.listStatus(self._path(folder))
        except Py4JJavaError as error:
            if "FileNotFoundException" in str(error.java_exception.getClass().getName()):
                return None
            raise
        names = [status.getPath().getName() for status in found]
        return max((int(name) for name in names if name.isdigit()), default=None)

    def _path(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(f"{self.location}/{name}")
