"""What tests do with objects beside the pipeline, through Spark's own way to the store."""

from typing import Any

from pyspark.sql import SparkSession


def objects(location: str) -> set[str]:
    """The names of the objects under a URI, from there on."""
    files, root = _reach(location)
    names: set[str] = set()
    if files.exists(root):
        found = files.listFiles(root, True)
        while found.hasNext():
            path = found.next().getPath().toUri()
            names.add(str(root.toUri().relativize(path).getPath()))
    return names


def remove(location: str, *names: str) -> None:
    """Removes objects under a URI; all, where none is named."""
    paths = [f"{location}/{name}" for name in names] or [location]
    for each in paths:
        files, path = _reach(each)
        files.delete(path, True)


def copy(location: str, target: str) -> None:
    """Copies all that is under a URI."""
    jvm: Any = SparkSession.active()._jvm
    for name in objects(location):
        (files, source), (_, place) = _reach(f"{location}/{name}"), _reach(f"{target}/{name}")
        util = jvm.org.apache.hadoop.fs.FileUtil
        assert util.copy(files, source, files, place, False, files.getConf())


def _reach(location: str) -> tuple[Any, Any]:
    """The store, as Hadoop has it, and a place in it."""
    spark = SparkSession.active()
    jvm: Any = spark._jvm
    path = jvm.org.apache.hadoop.fs.Path(location)
    return path.getFileSystem(spark._jsc.hadoopConfiguration()), path
