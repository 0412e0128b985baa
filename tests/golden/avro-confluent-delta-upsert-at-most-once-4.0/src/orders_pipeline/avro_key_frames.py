"""What a Kafka key bears before its Avro or its JSON: the id of its schema, or nothing.

The setting ``table.key_framed`` says which.
"""

from collections.abc import Callable

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.types import StructType

from .avro_bare import framed_fault, make_bare_reader
from .avro_wire import frame_fault, make_reader, nth_schema, payload
from .registry import writer_schemas
from .settings import Topic


def make_avro_reader(
    spark: SparkSession, topic: Topic, schema: str, kind: StructType
) -> Callable[[DataFrame, Column], DataFrame]:
    """What reads a column of keys in Avro: see ``avro_wire.make_reader``.

    Raises:
        RefusedError, NoAnswerError, SettingsError: see ``registry.writer_schemas``.
    """
    if topic.table.key_framed:
        return make_reader(spark, topic, "key", schema, kind)
    return make_bare_reader(spark, "key", schema, kind)


def make_unframer(topic: Topic) -> Callable[[Column], tuple[Column, Column]]:
    """What gives of a column of keys their JSON, BINARY, and STRUCT<reason, message> or null.

    Raises:
        RefusedError, NoAnswerError, SettingsError: see ``registry.writer_schemas``.
    """
    if not topic.table.key_framed:
        return lambda key: (key, framed_fault(key))
    ids = sorted(writer_schemas(topic, "JSON", "key"))
    return lambda key: (payload(key), frame_fault(key, nth_schema(key, ids)))
