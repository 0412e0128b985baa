"""Decodes a batch by Spark's own expressions: every record with a record or with a reason."""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from .avro import record_of
from .avro_wire import make_reader
from .counting import observe, outcomes
from .names import table_columns
from .schema import avro_text
from .settings import Topic
from .shapes import COORDINATES, REJECTED, is_rejected
from .tombstones import make_tombstones


class Decoder:
    """Decodes the records of one batch; made on the driver."""

    def __init__(self, spark: SparkSession, topic: Topic, fields: StructType) -> None:
        """``fields`` is the topic's schema, as ``schema.read_schema`` gives it.

        Raises:
            SettingsError: the key columns cannot be had from a record's key.
            PipelineError: what the schema registry raises.
        """
        self._columns = table_columns(fields)
        self._add_value = make_reader(spark, topic, "value", avro_text(fields), self._columns)
        self._add_tombstone = make_tombstones(spark, topic, fields)

    def decode(self, records: DataFrame) -> DataFrame:
        """Decodes every record.

        Columns: *records* in, *decoded* out (``shapes.py``).
        Rows: one for each record, with a ``record`` or with a ``rejected``; with neither where the
        value is null and ``tombstones.py`` makes no row of it.
        """
        deleted = F.col("value").isNull()
        # Spark evaluates a column that several others use once, as long as each step has its own.
        read = self._add_value(self._add_tombstone(records), F.col("value"))
        judged = read.withColumn(
            "fault", F.when(deleted, F.col("tombstone.fault")).otherwise(F.col("value_fault"))
        )
        accepted, fault = F.col("fault").isNull(), F.col("fault")
        rejected = F.struct(
            fault["reason"].alias("reason"),
            fault["message"].alias("message"),
            "key",
            "value",
            "headers",
        )
        record = F.when(deleted, F.col("tombstone.record")).otherwise(
            record_of(F.col("value_read"), self._columns)
        )
        flat = judged.withColumn("headers", F.to_json("headers"))
        return flat.select(
            *(F.col(name[1:]).alias(name) for name in COORDINATES.fieldNames()),
            F.when(accepted, record).alias("record"),
            deleted.alias("deleted"),
            F.when(~accepted, rejected).cast(REJECTED).alias("rejected"),
        )

    def rejected(self, records: DataFrame) -> DataFrame:
        """The rejected rows of *decoded*: *records* are decoded once more."""
        # Observed, since Spark would move the filter below and decode for it over and over.
        decoded, _ = observe(self.decode(records), **outcomes())
        return decoded.where(is_rejected())
