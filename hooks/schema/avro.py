"""A topic's schema: ``schemas/<topic>.avsc``; a field that is not a union with null is required.

The column of each Avro type is what Spark's ``from_avro`` makes of it. Of its logical types, with
others read as the type beneath them:

decimal                    DECIMAL(precision, scale), up to 38 digits
date                       DATE
timestamp-millis, -micros  TIMESTAMP; local-timestamp-* TIMESTAMP_NTZ; timestamp-nanos BIGINT
time-millis, time-micros   INT, BIGINT: since midnight, as written
uuid                       STRING, or BINARY where it is a fixed
duration                   BINARY: months, days and milliseconds, as written
a union of several types   STRUCT<member0, member1, ...>; of int and long BIGINT, of float and
                           double DOUBLE
"""

import hashlib
import json
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro
from pyspark.sql.types import ArrayType, DataType, MapType, NullType, StructField, StructType

from .avro import NO_RECORD
from .avro_columns import most_digits, plain_schema
from .errors import SettingsError
from .settings import Topic

_EXAMPLE = (
    '{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}, '
    '{"name": "note", "type": ["null", "string"], "default": null}]}'
)


def read_schema(topic: Topic) -> StructType:
    """The fields of the topic's records, named as in the records themselves.

    Raises:
        SettingsError: there is no such file, it is not Avro, or no table can hold what it says.
    """
    path = topic.schema_path
    if not path.is_file():
        raise SettingsError(
            f"The topic {topic.name!r} has no schema: {path} is missing. Write an Avro record "
            f"there, for example: {_EXAMPLE}"
        )
    return record_fields(path, path.read_text(encoding="utf-8"))


def record_fields(path: Path, text: str) -> StructType:
    """The fields of the Avro record in ``text``, which is what ``path`` says.

    Raises:
        SettingsError: it is no Avro record, or no table can hold what it says.
    """
    kind = _columns(path, text)
    if not _is_record(text):
        raise SettingsError(
            f"{path} is not a record, and a topic's rows need fields. Write: {_EXAMPLE}"
        )
    first = StructField(kind[0].name, kind[0].dataType, kind[0].nullable, {"avro": text})
    return StructType([first, *kind.fields[1:]])


def avro_text(fields: StructType) -> str:
    """The text that :func:`record_fields` made these fields of.

    They carry it, so that a file that is changed while the pipeline runs changes nothing.
    """
    return str(fields[0].metadata["avro"])


def fingerprint(topic: Topic, fields: StructType) -> str:
    """Stands for all that decides how a record is decoded: it changes when any of that does."""
    return hashlib.sha256(avro_text(fields).encode()).hexdigest()[:16]


def read_avro(path: Path) -> tuple[str, StructType]:
    """The text of an Avro schema and the fields that ``from_avro`` makes of it.

    Of a schema that is no record they are one, called ``avro.NO_RECORD``.

    Raises:
        SettingsError: the file is not Avro, or no table can hold what it says.
    """
    text = path.read_text(encoding="utf-8")
    return text, _columns(path, text)


def _columns(path: Path, text: str) -> StructType:
    spark = SparkSession.active()
    jvm: Any = spark._jvm
    try:
        json.loads(text)
        getattr(jvm.org.apache.avro, "Schema$Parser")().parse(text)
    except ValueError as error:
        raise SettingsError(f"{path} is not JSON: {error}. An Avro schema is: {_EXAMPLE}") from None
    except (Py4JJavaError, PySparkException) as error:
        raise SettingsError(f"{path} is not an Avro schema: {_words(error)}") from None
    try:
        read = from_avro(F.lit(b""), json.dumps(plain_schema(text)), {"mode": "FAILFAST"})
        kind = spark.range(0).select(read.alias("record")).schema["record"].dataType
    except (Py4JJavaError, PySparkException) as error:
        raise SettingsError(f"{path}: {_advice(_words(error))}") from None
    _check(path, "$", kind)
    json.loads(text, object_hook=lambda schema: _check_decimal(path, schema))
    if isinstance(kind, StructType) and _is_record(text):
        return kind
    return StructType([StructField(NO_RECORD, kind)])


def _is_record(text: str) -> bool:
    schema = json.loads(text)
    return isinstance(schema, dict) and schema["type"] == "record"


def _check(path: Path, place: str, kind: DataType) -> None:
    """Refuses what ``from_avro`` has a type for and a table has not."""
    if isinstance(kind, StructType):
        if not kind.fields:
            raise SettingsError(
                f"{path}: {place} has no fields, or no type but null, and a table has no column "
                "for that. Leave it out, or give it one."
            )
        for field in kind:
            _check(path, f"{place}.{field.name}", field.dataType)
    elif isinstance(kind, ArrayType):
        _check(path, f"{place}[...]", kind.elementType)
    elif isinstance(kind, MapType):
        _check(path, f"{place}[...]", kind.valueType)
    elif isinstance(kind, NullType):
        raise SettingsError(
            f"{path}: {place} is never anything but null, and a table has no column for that. "
            'Leave it out, or give it a type, such as ["null", "string"].'
        )


def _check_decimal(path: Path, schema: dict[str, Any]) -> None:
    """Avro reads a decimal that makes no sense as if it were none, which would be BINARY."""
    if schema.get("logicalType") != "decimal" or schema.get("type") not in ("bytes", "fixed"):
        return
    precision, scale = schema.get("precision", 0), schema.get("scale", 0)
    if not (type(precision) is type(scale) is int and 0 <= scale <= precision and precision > 0):
        raise SettingsError(
            f"{path}: a decimal has the precision {precision!r} and the scale {scale!r}. Write how "
            "many digits it has, as precision, and how many of those are decimals, as scale"
        )
    if precision > most_digits(schema):
        raise SettingsError(
            f"{path}: a decimal has the precision {precision}, and a fixed of {schema['size']} "
            f"bytes has room for {most_digits(schema)} digits. Write a size that is large enough"
        )


def _words(error: Exception) -> str:
    """What Java said, on one line."""
    java = error.java_exception.getMessage() if isinstance(error, Py4JJavaError) else str(error)
    return " ".join(str(java).split())


def _advice(words: str) -> str:
    if "recursive" in words:
        return (
            "a record holds itself, and a table has no column for that. Leave that field out; the "
            "records may still have it where a schema registry holds their schema"
        )
    return f"Spark has no column for it: {words}"
