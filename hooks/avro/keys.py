"""A Kafka key to the key columns it stands for: which row a tombstone deletes.

``avro``: Avro of the schema in ``schemas/<topic>.key.avsc``: a record that holds the key columns,
whose other fields are ignored; or, for one key column, just its type.
``json``: an object that holds the key columns; its other fields are ignored.
``string``: the text of the one key column, bare: ``42``, ``2026-01-31``, ``any text``.
"""

from collections.abc import Callable
from functools import cache
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StructField, StructType

from .avro import NO_RECORD, field_of, verdict
from .avro_bare import framed_fault
from .avro_key_frames import make_avro_reader, make_unframer
from .errors import SettingsError
from .key_texts import check_kind, json_fault, json_text, parsed_json, text_fault, text_value
from .reasons import Reason
from .schema import read_avro
from .settings import Topic


def make_key_reader(
    spark: SparkSession, topic: Topic, fields: StructType
) -> Callable[[DataFrame, Column], DataFrame]:
    """What reads a column of keys; *fields* are just the key columns.

    It adds to a DataFrame ``key_columns`` STRUCT<the key columns> and ``key_fault`` STRUCT<reason,
    message>; where that is null, all of the key columns are set.

    Raises:
        SettingsError: a key of this format cannot hold the key columns.
    """
    key_format = topic.table.key_format
    if key_format == "avro":
        return _avro_reader(spark, topic, fields)
    for field in fields:
        check_kind(field)
    if key_format == "json":
        return _json_reader(topic, fields)
    if len(fields) != 1:
        raise SettingsError(
            f"A string key holds one key column, not {fields.names}; use the key format json"
        )
    return _string_reader(fields[0])


def _string_reader(field: StructField) -> Callable[[DataFrame, Column], DataFrame]:
    def add_key(records: DataFrame, key: Column) -> DataFrame:
        text = key.cast("string")
        columns = F.struct(text_value(text, field.dataType).alias(field.name))
        # A text with such a start is nobody's, so it is what a registry's serializer wrote.
        fault = _not_utf8(text).otherwise(text_fault(text, field, "the key"))
        return _added(records, key, columns, F.coalesce(framed_fault(key), fault))

    return add_key


def _json_reader(topic: Topic, fields: StructType) -> Callable[[DataFrame, Column], DataFrame]:
    unframe = make_unframer(topic)

    def add_key(records: DataFrame, key: Column) -> DataFrame:
        payload, frame_fault = unframe(key)
        text = payload.cast("string")
        records = records.withColumn("key_json", parsed_json(text))
        whole = F.col("key_json")
        texts = {field.name: json_text(whole, field.name) for field in fields}
        columns = F.struct(
            *(text_value(texts[field.name], field.dataType).alias(field.name) for field in fields)
        )
        fault = _not_utf8(text)
        fault = fault.when(whole.isNull(), verdict(Reason.UNDECODABLE, "The key is not JSON"))
        for field in fields:
            found = json_fault(whole, field, texts[field.name])
            fault = fault.when(found.isNotNull(), found)
        return _added(records, key, columns, F.coalesce(frame_fault, fault))

    return add_key


def _added(records: DataFrame, key: Column, columns: Column, fault: Column) -> DataFrame:
    present = key.isNotNull()
    return records.withColumn("key_columns", F.when(present, columns)).withColumn(
        "key_fault", F.when(present, fault)
    )


def _not_utf8(text: Column) -> Column:
    return F.when(~F.is_valid_utf8(text), verdict(Reason.UNDECODABLE, "The key is not UTF-8"))


def _avro_reader(
    spark: SparkSession, topic: Topic, fields: StructType
) -> Callable[[DataFrame, Column], DataFrame]:
    path = topic.schema_path.with_name(f"{topic.name}.key.avsc")
    if not path.is_file():
        raise SettingsError(
            f"The keys of the topic {topic.name!r} have no schema: {path} is missing. Write there "
            'the schema that their producer uses, for example: "string"'
        )
    text, kind = _key_schema(path)
    # A key that is no record is the one key column.
    alone = kind.names == [NO_RECORD] and len(fields) == 1
    names = {field.name: NO_RECORD if alone else field.name for field in fields}
    types = {field.name: field.dataType for field in kind}
    for field in fields:
        if types.get(names[field.name]) != field.dataType:
            raise SettingsError(
                f"{path} does not give the key column {field.name!r}: it would have to be "
                f"{field.dataType.simpleString()} there as in {topic.schema_path}, and is "
                f"{_shown(types.get(names[field.name]))}"
            )
    add_read = make_avro_reader(spark, topic, text, kind)

    def add_key(records: DataFrame, key: Column) -> DataFrame:
        found, fault = F.col("key_read"), F.col("key_fault")
        columns = F.struct(
            *(field_of(found, names[f.name], f.dataType).alias(f.name) for f in fields)
        )
        missing = F.when(fault.isNotNull(), fault)
        for field in fields:
            nothing = found[names[field.name]].isNull() & key.isNotNull()
            message = f"The key column {field.name} is null in the key"
            missing = missing.when(nothing, verdict(Reason.MISSING_FIELD, message))
        return (
            add_read(records, key)
            .withColumn("key_columns", columns)
            .withColumn("key_fault", missing)
        )

    return add_key


@cache
def _key_schema(path: Path) -> tuple[str, StructType]:
    return read_avro(path)  # once: what it says holds for as long as the pipeline runs


def _shown(kind: DataType | None) -> str:
    return kind.simpleString() if kind else "missing"
