"""A topic's schema: ``schemas/<topic>.proto``, as ``make protos`` has compiled it.

``protobuf_types.py`` says which column each field becomes, and which of them is required.
"""

import hashlib
from base64 import b64decode, b64encode
from pathlib import Path

from pyspark.sql.types import StructField, StructType

from .errors import SettingsError
from .protobuf_files import Compiled, is_stale, record_message
from .protobuf_types import arrow_fields
from .settings import Topic
from .spark_types import spark_fields

_EXAMPLE = 'syntax = "proto3"; message Order { int64 id = 1; optional string note = 2; }'


def read_schema(topic: Topic) -> StructType:
    """The fields of the topic's records, named as in the records themselves.

    Raises:
        SettingsError: there is no such file, it is not compiled as it is now, it has no such
            message, or no table can hold what it says.
    """
    named = topic.settings.decode.messages.get(topic.name)
    return record_fields(topic.schema_path, read_compiled(topic.schema_path, named))


def record_fields(path: Path, compiled: Compiled) -> StructType:
    """The fields of a compiled message, which the file at *path* has.

    Raises:
        SettingsError: no table can hold what it says.
    """
    try:
        kind = spark_fields(arrow_fields(compiled.descriptor_set, compiled.message))
    except SettingsError as error:
        raise SettingsError(f"{path}: {error}") from None
    carried = {
        "message": compiled.message,
        "protobuf": b64encode(compiled.descriptor_set).decode(),
    }
    first = StructField(kind[0].name, kind[0].dataType, kind[0].nullable, carried)
    return StructType([first, *kind.fields[1:]])


def compiled_schema(fields: StructType) -> Compiled:
    """What :func:`read_schema` made these fields of.

    They carry it, so that a file that is changed while the pipeline runs changes nothing.
    """
    carried = fields[0].metadata
    return Compiled(b64decode(carried["protobuf"]), carried["message"])


def fingerprint(topic: Topic, fields: StructType) -> str:
    """Stands for all that decides how a record is decoded: it changes when any of that does."""
    descriptor_set, message = compiled_schema(fields)
    rules = f"{message} {topic.settings.decode.unknown_fields} ".encode()
    return hashlib.sha256(rules + descriptor_set).hexdigest()[:16]


def read_compiled(path: Path, message: str | None) -> Compiled:
    """The message of the .proto at *path*, the first or ``message``, and all that defines it.

    Raises:
        SettingsError: see :func:`read_schema`.
    """
    if not path.is_file():
        raise SettingsError(
            f"{path} is missing. Write the messages there that the producers use, that of the "
            f"records first, for example: {_EXAMPLE} Then run: make protos"
        )
    made = path.with_suffix(".binpb")
    if not made.is_file():
        raise SettingsError(f"{path} is not compiled: {made} is missing. Run: make protos")
    descriptor_set = made.read_bytes()
    if is_stale(descriptor_set, path.parent):
        raise SettingsError(
            f"{made} is of another text than {path} and what it imports have now. Run: make protos"
        )
    try:
        return Compiled(descriptor_set, record_message(descriptor_set, message))
    except SettingsError as error:
        raise SettingsError(f"{path}: {error}") from None
