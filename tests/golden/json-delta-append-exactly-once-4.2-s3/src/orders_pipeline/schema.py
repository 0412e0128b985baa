"""A topic's schema: ``schemas/<topic>.ddl``, in Spark's DDL; NOT NULL means required."""

import hashlib

from pyspark.errors import ParseException
from pyspark.sql.types import StructType

from .errors import SettingsError
from .settings import Topic


def read_schema(topic: Topic) -> StructType:
    """The fields of the topic's records, named as in the records themselves.

    Raises:
        SettingsError: there is no such file, or it does not parse.
    """
    path = topic.schema_path
    if not path.is_file():
        raise SettingsError(
            f"The topic {topic.name!r} has no schema: {path} is missing. Write its columns there, "
            "for example: id BIGINT NOT NULL, note STRING"
        )
    try:
        schema = StructType.fromDDL(path.read_text())
    except ParseException as error:
        raise SettingsError(f"{path} is not Spark DDL: {error}") from None
    if not isinstance(schema, StructType):
        raise SettingsError(f"{path} names a single type, not columns: id BIGINT NOT NULL, ...")
    return schema


def fingerprint(topic: Topic, fields: StructType) -> str:
    """Stands for all that decides how a record is decoded: it changes when any of that does."""
    rules = f"{fields.json()} {topic.settings.decode.unknown_fields}"
    return hashlib.sha256(rules.encode()).hexdigest()[:16]
