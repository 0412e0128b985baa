"""An output record's value: Protobuf, behind the id that its schema has in the registry.

A zero byte, the id as four bytes, a zero byte for the first message of its file, the value:
Confluent's wire format
(https://docs.confluent.io/platform/current/schema-registry/fundamentals/serdes-develop/index.html).
A list or a map that is null becomes an empty one, since Protobuf has no other.
"""

from collections.abc import Iterator
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from ptars import HandlerPool, PtarsConfig
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from . import output_schema, output_subject
from .flags import Flags, any_within, flags
from .output_text import compiled, message_of
from .settings import Topic

NO_PLACE = "it has a null where the message of the output topic has none, or two fields of a oneof"
CONFIG = PtarsConfig(timestamp_unit="us", list_value_name="element", map_value_nullable=True)


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
    return output_subject.foresee(topic, columns, "PROTOBUF", output_schema.schema_of)


def encode(rows: DataFrame, topic: Topic) -> DataFrame:
    """The column ``row`` STRUCT becomes ``value`` BINARY and ``refused`` STRING, one of them null.

    Refused is a row with a null in a list or a map, or where the message, which somebody else
    registered, has a field that is never absent; and one with two fields of which that has one.

    Raises:
        see ``prepare``.
    """
    columns = rows.select("row.*").schema
    output = _output(topic, columns)
    kept = [field for field in rows.schema if field.name != "row"]
    plain = rows.withColumn("row", F.col("row").cast(output_schema.wire_row(columns)))
    file = compiled(output.schema).SerializeToString()
    frame = b"\0" + output.id.to_bytes(4, "big") + b"\0"
    made = [StructField("value", BinaryType()), StructField("refused", StringType())]
    shape = StructType([*kept, *made])
    return plain.mapInArrow(partial(_encoded, file, frame), shape)


def _output(topic: Topic, columns: StructType) -> output_subject.Output:
    return output_subject.output_of(topic, columns, "PROTOBUF", output_schema.schema_of)


def _encoded(
    file: bytes, frame: bytes, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    message = message_of(FileDescriptorProto.FromString(file))
    handler = HandlerPool([message.file], CONFIG).get_for_message(message)
    for batch in batches:
        rows = batch.column("row")
        lossy = _lossy(rows, message)
        written = handler.record_batch_to_array(pa.RecordBatch.from_struct_array(rows))
        values = pc.binary_join_element_wise(pa.scalar(frame), written.cast(pa.binary()), b"")
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        del columns["row"]
        columns["value"] = pc.if_else(lossy, pa.scalar(None, pa.binary()), values)
        columns["refused"] = pc.if_else(lossy, pa.scalar(NO_PLACE), pa.scalar(None, pa.string()))
        yield pa.RecordBatch.from_pydict(columns)


def _lossy(rows: pa.StructArray, message: Descriptor) -> Flags:
    """Of each row whether it has a null that the message would turn into something else.

    Or two fields of a oneof, of which a reader would find one.
    """
    found = np.zeros(len(rows), np.bool_)
    names = {column.name for column in rows.type}
    for oneof in message.oneofs:
        held = [flags(rows.field(f.name).is_valid()) for f in oneof.fields if f.name in names]
        found |= np.sum(held, axis=0) > 1
    for place, column in enumerate(rows.type):
        field = message.fields_by_name[column.name]
        values = rows.field(place)
        if isinstance(values, pa.MapArray):
            [_, value] = field.message_type.fields  # type: ignore[union-attr]
            found |= any_within(values, _lossy_or_null(values.items, value))
        elif isinstance(values, pa.ListArray):
            found |= any_within(values, _lossy_or_null(values.values, field))
        elif field.is_required or not field.has_presence:
            found |= flags(values.is_null())
        elif isinstance(values, pa.StructArray):
            found |= _lossy_or_null(values, field) & flags(values.is_valid())
    return found


def _lossy_or_null(values: pa.Array, field: FieldDescriptor) -> Flags:
    found = flags(values.is_null())
    if isinstance(values, pa.StructArray) and field.message_type:
        found |= _lossy(values, field.message_type)
    return found
