"""What a Kafka key bears before its Avro or its JSON: nothing, in this pipeline."""

from collections.abc import Callable

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.types import StructType

from .avro_bare import framed_fault, make_bare_reader
from .settings import Topic


def make_avro_reader(
    spark: SparkSession, topic: Topic, schema: str, kind: StructType
) -> Callable[[DataFrame, Column], DataFrame]:
    """What reads a column of keys in Avro: see ``avro_bare.make_bare_reader``."""
    return make_bare_reader(spark, "key", schema, kind)


def make_unframer(topic: Topic) -> Callable[[Column], tuple[Column, Column]]:
    """What gives of a column of keys their JSON, BINARY, and STRUCT<reason, message> or null.

    No JSON starts with a zero byte, so a key that does is framed.
    """
    return lambda key: (key, framed_fault(key))
