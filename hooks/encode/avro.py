"""An output record's value: Avro, behind the id that its schema has in the registry.

A zero byte, the id as four bytes, the value: Confluent's wire format
(https://docs.confluent.io/platform/current/schema-registry/fundamentals/serdes-develop/index.html).
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import to_avro
from pyspark.sql.types import StructType

from . import output_schema, output_subject
from .settings import Topic

NO_NULL = "the schema of the output topic has no null for "


def prepare(topic: Topic, columns: StructType) -> None:
    """Sees that rows with these *columns* can be written: their schema is registered, or made so.

    Raises:
        RefusedError: see ``output_schema.schema_of``, ``output_subject.output_of``.
        NoAnswerError, SettingsError: see ``registry_client.ask``.
    """
    output_subject.forget()
    _output(topic, columns)


def encode(rows: DataFrame, topic: Topic) -> DataFrame:
    """The column ``row`` STRUCT becomes ``value`` BINARY and ``refused`` STRING, one of them null.

    Refused is a row with a null where the schema, which somebody else registered, has none.

    Raises:
        see ``prepare``.
    """
    columns = rows.select("row.*").schema
    output = _output(topic, columns)
    refused = F.coalesce(
        F.lit(None).cast("string"),
        *(
            F.when(F.col("row")[name].isNull(), F.lit(f"{NO_NULL}{name}"))
            for name in output_schema.required(output.schema)
        ),
    )
    frame = F.lit(b"\0" + output.id.to_bytes(4, "big"))
    value = F.when(F.col("refused").isNull(), F.concat(frame, to_avro("row", output.schema)))
    return rows.withColumn("refused", refused).withColumn("value", value).drop("row")


def _output(topic: Topic, columns: StructType) -> output_subject.Output:
    return output_subject.output_of(topic, columns, "AVRO", output_schema.schema_of)
