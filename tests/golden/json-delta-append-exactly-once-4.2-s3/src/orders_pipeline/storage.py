"""Small files and folders in S3, through Hadoop's FileSystem.

An object is there once its stream is closed, whole, and in every list from then on. A folder is no
more than how names begin, and to rename a file is to copy it and to remove the old one.
"""

from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession


class Folder:
    """A folder; names are those of what it holds, with slashes for what lies deeper."""

    def __init__(self, spark: SparkSession, location: str) -> None:
        self.location = location
        gateway: Any = spark.sparkContext._gateway
        self._jvm = gateway.jvm
        self._configuration = spark._jsc.hadoopConfiguration()
        path = self._jvm.org.apache.hadoop.fs.Path(location)
        self._files = path.getFileSystem(self._configuration)

    def read(self, name: str) -> str | None:
        """The text of a file; None where there is none."""
        while True:
            try:
                return self._text(name)
            except Py4JJavaError as error:
                if _is_missing(error):
                    return None
                if "RemoteFileChangedException" not in _kind(error):  # written anew meanwhile
                    raise

    def _text(self, name: str) -> str:
        stream = self._files.open(self._path(name))
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def write(self, name: str, text: str) -> None:
        """Writes a file, whole or not at all, over one that is there."""
        stream = self._files.create(self._path(name), True)
        stream.write(bytearray(text.encode()))
        stream.close()

    def claim(self, name: str, text: str, tag: str | None) -> bool:
        """Writes a file if there is none, or in place of the one that has the tag ``tag``.

        Returns whether it did; not where another came first.
        """
        option = "fs.option.create.conditional.overwrite"
        builder = self._files.createFile(self._path(name)).recursive().overwrite(True)
        builder = builder.must(f"{option}.etag", tag) if tag else builder.must(option, True)
        try:
            stream = builder.build()
            stream.write(bytearray(text.encode()))
            stream.close()
        except Py4JJavaError as error:
            if not _kind(error).endswith((".RemoteFileChangedException", ".FileNotFoundException")):
                raise
            # A write whose answer was lost is tried again, and meets itself.
            return self.read(name) == text
        return True

    def tag(self, name: str) -> str | None:
        """What S3 calls the present content of a file (its ETag); None where there is none."""
        try:
            return str(self._files.getFileStatus(self._path(name)).getEtag())
        except Py4JJavaError as error:
            if _is_missing(error):
                return None
            raise

    def names(self, name: str) -> list[str]:
        """What a folder in it holds; nothing where there is no such folder."""
        try:
            found = self._files.listStatus(self._path(name))
        except Py4JJavaError as error:
            if _is_missing(error):
                return []
            raise
        return [str(status.getPath().getName()) for status in found]

    def _path(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(f"{self.location}/{name}")


def _is_missing(error: Py4JJavaError) -> bool:
    """Whether a file or a folder is not there."""
    return "FileNotFoundException" in _kind(error)


def _kind(error: Py4JJavaError) -> str:
    """The name of the Java class of an error."""
    return str(error.java_exception.getClass().getName())
