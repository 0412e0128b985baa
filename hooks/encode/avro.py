"""An output record's value: Avro, behind the id that its schema has in the registry.

A zero byte, the id as four bytes, the value: Confluent's wire format
(https://docs.confluent.io/platform/current/schema-registry/fundamentals/serdes-develop/index.html).
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import to_avro
from pyspark.sql.types import StructType

from . import output_limits, output_schema, output_subject
from .settings import Topic


def prepare(topic: Topic, columns: StructType) -> None:
    """Sees that rows with these *columns* can be written: their schema is registered, or made so.

    Raises:
        RefusedError: see ``output_schema.schema_of``, ``output_subject.output_of``.
        NoAnswerError, SettingsError: see ``registry_client.ask``.
    """
    output_subject.forget()
    _output(topic, columns)


def foresee(topic: Topic, columns: StructType) -> str:
    """What ``prepare`` would find or register, in a sentence; registers nothing.

    Raises:
        see ``prepare``.
    """
    return output_subject.foresee(topic, columns, "AVRO", output_schema.schema_of)


def encode(rows: DataFrame, topic: Topic) -> DataFrame:
    """The column ``row`` STRUCT becomes ``value`` BINARY and ``refused`` STRING, one of them null.

    Refused is a row with what the schema, which somebody else registered, does not take.

    Raises:
        see ``prepare``.
    """
    columns = rows.select("row.*").schema
    output = _output(topic, columns)
    unfit = output_limits.unfit(F.col("row"), columns, output.schema)
    reasons = [F.when(condition, F.lit(why)) for condition, why in unfit]
    refused = F.coalesce(F.lit(None).cast("string"), *reasons)
    frame = F.lit(b"\0" + output.id.to_bytes(4, "big"))
    value = F.when(F.col("refused").isNull(), F.concat(frame, to_avro("row", output.schema)))
    return rows.withColumn("refused", refused).withColumn("value", value).drop("row")


def _output(topic: Topic, columns: StructType) -> output_subject.Output:
    return output_subject.output_of(topic, columns, "AVRO", output_schema.schema_of)
