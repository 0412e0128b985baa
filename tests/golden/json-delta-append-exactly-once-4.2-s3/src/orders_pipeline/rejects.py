"""The rejected records of a batch, kept aside while it is written.

A few of them then cost no second reading of the batch. They travel as a Spark accumulator, from the
tasks to the driver, and no more of them than fit: where some did not, the batch is read again.
"""

from functools import cache

import pyarrow as pa
from pyspark import Accumulator, SparkContext
from pyspark.accumulators import AccumulatorParam
from pyspark.sql import DataFrame, SparkSession

from .settings import Topic

LIMIT_BYTES = 16 * 1024 * 1024
"""How much is kept of a batch; as much at most again while it comes together on the driver."""


class Kept(AccumulatorParam[list[bytes]]):
    """Arrow streams of the shape *decoded*, as many as fit."""

    def zero(self, value: list[bytes]) -> list[bytes]:
        """Nothing kept."""
        return []

    def addInPlace(self, value1: list[bytes], value2: list[bytes]) -> list[bytes]:
        """The streams of both while they fit; else those of the first."""
        both = value1 + value2
        return both if sum(map(len, both)) <= LIMIT_BYTES else value1


@cache
def kept_of(context: SparkContext, topic: str) -> Accumulator[list[bytes]]:
    """Where a topic's rejected records are kept; one for all its batches."""
    return context.accumulator([], Kept())


def start_keeping(spark: SparkSession, topic: Topic) -> Accumulator[list[bytes]]:
    """An empty place for the rejected records of a topic's next batch."""
    kept = kept_of(spark.sparkContext, topic.name)
    kept.value = []
    return kept


def keep(kept: Accumulator[list[bytes]], decoded: pa.RecordBatch) -> None:
    """Keeps the rejected rows of *decoded*, in a task."""
    rejected = decoded.filter(decoded.column("rejected").is_valid())
    if len(rejected):
        stream = pa.BufferOutputStream()
        with pa.ipc.new_stream(stream, decoded.schema) as writer:
            writer.write_batch(rejected)
        kept.add([stream.getvalue().to_pybytes()])


def rejected_rows(
    spark: SparkSession, kept: Accumulator[list[bytes]], count: int
) -> DataFrame | None:
    """The rows of *decoded* that were kept; None unless they are all ``count``.

    A task that ran twice has sent its own twice: each counts once.
    """
    tables = [pa.ipc.open_stream(stream).read_all() for stream in kept.value]
    kept.value = []
    names = ["_partition", "_offset"]
    found = {tuple(row.values()) for table in tables for row in table.select(names).to_pylist()}
    if len(found) != count:
        return None
    return spark.createDataFrame(pa.concat_tables(tables)).dropDuplicates(names)
