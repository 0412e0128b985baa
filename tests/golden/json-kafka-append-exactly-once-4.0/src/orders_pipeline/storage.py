"""Small files and folders in whatever store Spark can reach, through Hadoop's FileSystem."""

from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession


class Folder:
    """A folder; names are those of what it holds, with slashes for what lies deeper."""

    def __init__(self, spark: SparkSession, location: str) -> None:
        self.location = location
        gateway: Any = spark.sparkContext._gateway
        self._gateway = gateway
        self._jvm = gateway.jvm
        self._configuration = spark._jsc.hadoopConfiguration()
        path = self._jvm.org.apache.hadoop.fs.Path(location)
        self._files = path.getFileSystem(self._configuration)

    def read(self, name: str) -> str | None:
        """The text of a file; None where there is none."""
        try:
            stream = self._files.open(self._path(name))
        except Py4JJavaError as error:
            if _is_missing(error):
                return None
            raise
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def write(self, name: str, text: str) -> None:
        """Writes a file, whole or not at all, over one that is there."""
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
