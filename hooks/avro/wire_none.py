"""Bare Avro: a value is the bytes of one record of the schema in ``schemas/``, nothing else."""

from collections.abc import Callable
from typing import Literal

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.types import StructType

from .avro_bare import make_bare_reader
from .settings import Topic


def make_reader(
    spark: SparkSession, topic: Topic, part: Literal["value", "key"], schema: str, kind: StructType
) -> Callable[[DataFrame, Column], DataFrame]:
    """What reads a column of bytes in this schema: see ``avro_bare.make_bare_reader``."""
    return make_bare_reader(spark, part, schema, kind)
