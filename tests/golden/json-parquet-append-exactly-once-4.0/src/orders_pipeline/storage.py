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

    def delete(self, name: str) -> None:
        """Removes a file, if it is there."""
        self._files.delete(self._path(name), False)

    def remove(self, name: str) -> None:
        """Removes a folder in it with all that it holds, if it is there."""
        self._files.delete(self._path(name), True)

    def files(self, name: str) -> list[str]:
        """The files in a folder in it and in those within, named from there on."""
        if not self._files.exists(self._path(name)):
            return []
        found = self._files.listFiles(self._path(name), True)
        root = self._files.makeQualified(self._path(name)).toUri()
        paths = []
        while found.hasNext():
            paths.append(str(root.relativize(found.next().getPath().toUri()).getPath()))
        return paths

    def size_bytes(self, name: str) -> int:
        """How large all files in a folder in it are together."""
        return int(self._files.getContentSummary(self._path(name)).getLength())

    def take(self, other: "Folder", theirs: str, ours: str) -> None:
        """Moves a file of another folder here, at once, in place of one that is here.

        Raises:
            FileNotFoundError: it is not there, or could not be moved.
        """
        source, target = other._path(theirs), self._path(ours)
        if not self._files.exists(source):
            raise FileNotFoundError(f"{source} is not there, to be moved to {target}")
        self._files.mkdirs(target.getParent())
        if not self._files.rename(source, target):
            raise FileNotFoundError(f"{source} could not be moved to {target}")

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
