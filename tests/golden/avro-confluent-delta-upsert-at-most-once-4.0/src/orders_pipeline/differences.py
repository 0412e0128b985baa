"""How a version of a topic's schema in the registry differs from ours, by Avro's own rules."""

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from . import avro_versions
from .avro_resolution import incompatibilities, resolve
from .registry import Registered
from .schema import avro_text
from .settings import Topic


def unread_fields(fields: StructType, registered: Registered) -> list[str]:
    """The fields that the version has and ours has not, ``address.zip``; those within are not.

    None of a version that cannot be read at all.
    """
    found = resolve(SparkSession.active(), avro_text(fields), registered)
    if found.problem:
        return []
    return avro_versions.unread_fields(avro_text(fields), found.schema)


def cannot_read(topic: Topic, fields: StructType, registered: Registered) -> list[str]:
    """Why records of the version cannot be read with ours; empty if they can."""
    spark, ours = SparkSession.active(), avro_text(fields)
    found = resolve(spark, ours, registered)
    if not found.schema:
        return [found.problem or ""]
    return incompatibilities(spark, ours, found.schema)


def cannot_be_read(fields: StructType, registered: Registered) -> list[str]:
    """Why records of ours cannot be read with the version; empty if they can."""
    spark, ours = SparkSession.active(), avro_text(fields)
    found = resolve(spark, ours, registered)
    if not found.schema:
        return [found.problem or ""]
    return incompatibilities(spark, found.schema, ours)
