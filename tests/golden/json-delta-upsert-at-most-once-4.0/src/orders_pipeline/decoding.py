"""Runs the decoder over a batch: every record comes out with a record or with a reason."""

from collections.abc import Callable, Iterator

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import Accumulator
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from .arrow import arrow_schema
from .decode import Decoded, make_decoder
from .rejects import keep, rejected_rows
from .rows import make_tombstone_decoder
from .schema import table_columns
from .settings import Topic
from .shapes import decoded_shape, is_rejected


def decode_records(
    records: DataFrame,
    topic: Topic,
    fields: StructType,
    kept: Accumulator[list[bytes]] | None = None,
) -> DataFrame:
    """Decodes every record of *records* with the topic's schema ``fields``.

    The rejected ones are put in ``kept`` as well (``rejects.py``), whenever it is done.

    Columns: *records* in, *decoded* out (``shapes.py``).
    Rows: one for each record, with a ``record`` or with a ``rejected``; with neither where the
    value is null and ``rows.py`` makes no row of it.

    Raises:
        SettingsError: the schema has a column that cannot be decoded.
    """
    shape = decoded_shape(table_columns(fields))
    run = _runner(topic, arrow_schema(fields), arrow_schema(shape), kept)
    # Spark puts lists into Arrow in a time that grows with the square of a batch, null ones too.
    return records.withColumn("headers", F.to_json("headers")).mapInArrow(run, shape)


def decode_rejected(
    records: DataFrame,
    topic: Topic,
    fields: StructType,
    kept: Accumulator[list[bytes]],
    count: int,
) -> DataFrame:
    """The rejected rows of *decoded*, ``count`` of them: as ``kept``, or decoded once more."""
    rows = rejected_rows(records.sparkSession, kept, count)
    if rows is not None:
        return rows
    return decode_records(records, topic, fields).where(is_rejected())


def _runner(
    topic: Topic, fields: pa.Schema, shape: pa.Schema, kept: Accumulator[list[bytes]] | None
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    unknown_fields = topic.settings.decode.unknown_fields

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        decode_values = make_decoder(fields, unknown_fields)
        decode_tombstones = make_tombstone_decoder(topic, fields)
        for batch in batches:
            decoded = _as_columns(decode_values(batch.column("value")), shape)
            deleted = batch.column("value").is_null()
            if deleted.true_count:
                tombstones = decode_tombstones(batch.column("key").filter(deleted))
                decoded = _merged(decoded, _as_columns(tombstones, shape), deleted)
            rows = _assembled(batch, decoded, deleted, shape)
            if kept is not None:
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
        *(batch.column(name) for name in ("topic", "partition", "offset", "timestamp")),
        decoded.rows,
        deleted,
        reject,
    ]
    return pa.RecordBatch.from_arrays(columns, schema=shape)
