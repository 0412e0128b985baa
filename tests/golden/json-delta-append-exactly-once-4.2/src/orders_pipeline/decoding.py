"""Runs the decoder over a batch: every record comes out with a record or with a reason."""

from collections.abc import Callable, Iterator

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import Accumulator
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from .arrow import arrow_schema
from .decode import Decoded
from .names import table_columns
from .rejects import keep, rejected_rows, start_keeping
from .settings import Topic
from .shapes import COORDINATES, decoded_shape, is_rejected
from .tombstones import tombstone_decoder
from .values import value_decoder


class Decoder:
    """Decodes records of one topic; one for each batch.

    The rejected ones are collected while the batch is decoded (``rejects.py``).
    """

    def __init__(self, spark: SparkSession, topic: Topic, fields: StructType) -> None:
        """Makes ready to decode with the topic's schema *fields*.

        Raises:
            SettingsError: the schema has a column that cannot be decoded.
        """
        self._spark = spark
        self._shape = decoded_shape(table_columns(fields))
        self._kept = start_keeping(spark, topic)
        self._run = _runner(topic, fields, arrow_schema(self._shape), self._kept)

    def decode(self, records: DataFrame) -> DataFrame:
        """Decodes every record of *records*.

        Columns: *records* in, *decoded* out (``shapes.py``).
        Rows: one for each record, with a ``record`` or with a ``rejected``; with neither where the
        value is null and ``tombstones.py`` makes no row of it.
        """
        # Spark puts lists into Arrow in a time that grows with the square of a batch, null ones
        # too.
        flat = records.withColumn("headers", F.to_json("headers"))
        return flat.mapInArrow(self._run, self._shape)

    def rejected(self, records: DataFrame, count: int) -> DataFrame:
        """The ``count`` rejected rows of *decoded*, once ``decode`` has been through *records*.

        They were kept aside; if they were too many for that, the records are read a second time.
        """
        rows = rejected_rows(self._spark, self._kept, count)
        if rows is not None:
            return rows
        return self.decode(records).where(is_rejected())


def _runner(
    topic: Topic, fields: StructType, shape: pa.Schema, kept: Accumulator[list[bytes]]
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    make_decoder = value_decoder(topic, fields)
    make_tombstone_decoder = tombstone_decoder(fields)

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        decode_values = make_decoder()
        decode_tombstones = make_tombstone_decoder()
        for batch in batches:
            decoded = _as_columns(decode_values(batch.column("value")), shape)
            deleted = batch.column("value").is_null()
            if deleted.true_count:
                tombstones = decode_tombstones(batch.column("key").filter(deleted))
                decoded = _merged(decoded, _as_columns(tombstones, shape), deleted)
            rows = _assembled(batch, decoded, deleted, shape)
            keep(kept, rows)
            yield rows

    list(run(iter(())))  # what the schema makes impossible is refused here, before any task starts
    return run


def _as_columns(decoded: Decoded, shape: pa.Schema) -> Decoded:
    """The same under the table's names, all nullable (``table_columns``): the same layout."""
    return decoded._replace(rows=decoded.rows.view(shape.field("record").type))


def _merged(decoded: Decoded, tombstones: Decoded, deleted: pa.BooleanArray) -> Decoded:
    """``decoded`` with the rows where ``deleted`` is true replaced by ``tombstones``, in order."""
    nth_tombstone = pc.subtract(pc.cumulative_sum(deleted.cast(pa.int64())), 1)
    here = pa.array(range(len(deleted)), pa.int64())
    source = pc.if_else(deleted, pc.add(nth_tombstone, len(deleted)), here)
    return Decoded(
        *(pa.concat_arrays(pair).take(source) for pair in zip(decoded, tombstones, strict=True))
    )


def _assembled(
    batch: pa.RecordBatch, decoded: Decoded, deleted: pa.BooleanArray, shape: pa.Schema
) -> pa.RecordBatch:
    """One Arrow batch of the shape *decoded*."""
    accepted = decoded.reasons.is_null()
    rejected = shape.field("rejected").type
    if accepted.true_count == len(accepted):
        reject = pa.nulls(len(accepted), rejected)
    else:
        # The bytes travel on only for the records that need them.
        here = pc.if_else(accepted, None, pa.array(range(len(accepted)), pa.int64()))
        carried = [batch.column(name).take(here) for name in ("key", "value", "headers")]
        reject = pa.StructArray.from_arrays(
            [decoded.reasons, decoded.messages, *carried], fields=list(rejected), mask=accepted
        )
    columns = [
        *(batch.column(name[1:]) for name in COORDINATES.fieldNames()),
        decoded.rows,
        deleted,
        reject,
    ]
    return pa.RecordBatch.from_arrays(columns, schema=shape)
