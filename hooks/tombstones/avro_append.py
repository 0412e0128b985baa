"""What becomes of a record whose value is null: nothing, but it must be somebody's."""

from collections.abc import Callable

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from .avro import verdict
from .names import table_columns
from .reasons import Reason


def make_tombstones(fields: StructType) -> Callable[[DataFrame], DataFrame]:
    """What adds ``tombstone`` STRUCT<record, fault> to *records*, for those whose value is null.

    Its ``record`` is always null: a tombstone makes no row and is counted as skipped. A record with
    neither key nor value is nobody's tombstone and has a ``fault`` STRUCT<reason, message>.
    """

    def add_tombstone(records: DataFrame) -> DataFrame:
        nothing = F.lit(None).cast(table_columns(fields))
        no_key = verdict(Reason.NULL_KEY, "the record has neither a key nor a value")
        fault = F.when(F.col("key").isNull(), no_key)
        return records.withColumn(
            "tombstone", F.struct(nothing.alias("record"), fault.alias("fault"))
        )

    return add_tombstone
