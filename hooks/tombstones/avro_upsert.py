"""What becomes of a record whose value is null: a row of just the key columns, from its key."""

from collections.abc import Callable

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from .avro import verdict
from .avro_keys import make_key_reader
from .names import table_columns
from .reasons import Reason
from .settings import Topic


def make_tombstones(
    spark: SparkSession, topic: Topic, fields: StructType
) -> Callable[[DataFrame], DataFrame]:
    """What adds ``tombstone`` STRUCT<record, fault> to *records*, for those whose value is null.

    Its ``record`` holds just the key columns. A null key, or one that does not give them, has a
    ``fault`` STRUCT<reason, message>: nothing could match it.

    Raises:
        SettingsError: a key column cannot be had from a key.
    """
    keys = topic.table.key_columns
    columns = table_columns(fields)
    add_key = make_key_reader(spark, topic, StructType([_field(fields, name) for name in keys]))

    def add_tombstone(records: DataFrame) -> DataFrame:
        key = F.when(F.col("value").isNull(), F.col("key"))
        read = add_key(records, key)
        row = [
            (F.col(f"key_columns.{field.name}") if field.name in keys else F.lit(None))
            .cast(column.dataType)
            .alias(column.name)
            for field, column in zip(fields, columns, strict=True)
        ]
        no_key = verdict(Reason.NULL_KEY, "The record has no key")
        fault = F.when(F.col("key").isNull(), no_key).otherwise(F.col("key_fault"))
        return read.withColumn(
            "tombstone", F.struct(F.struct(*row).alias("record"), fault.alias("fault"))
        )

    return add_tombstone


def _field(fields: StructType, name: str) -> StructField:
    return fields.fields[fields.names.index(name)]
