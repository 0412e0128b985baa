"""Whether, and how, records of one Avro schema can be read with another."""

import logging
from functools import lru_cache
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from .avro import with_end
from .avro_versions import other_units, unread_fields
from .registry import Registered

log = logging.getLogger(__name__)


@lru_cache(maxsize=1024)
def resolve(spark: SparkSession, reader: str, registered: Registered) -> tuple[str, str | None]:
    """The writer's schema, for ``avro.read``, and why ``reader`` cannot read its records.

    That is None if it can, else a sentence with facts of the two schemas alone. Fields that the
    reader lacks are logged.
    """
    jvm: Any = spark._jvm
    parser = getattr(jvm.org.apache.avro, "Schema$Parser")
    # A default that is wrong in a writer's schema is never used.
    writers = parser().setValidateDefaults(False)
    try:
        for reference in registered.references:
            writers.parse(reference.schema)
        writer = writers.parse(registered.schema)
        text = str(writer.toString())
        ended = with_end(spark, text)
    except (Py4JJavaError, PySparkException) as error:
        message = str(getattr(error, "java_exception", error)).splitlines()[0]
        return "", f"does not parse: {message}"
    compatibility = jvm.org.apache.avro.SchemaCompatibility.checkReaderWriterCompatibility(
        parser().parse(reader), writer
    )
    found = [
        f"{each.getType()} at {each.getLocation()}: {each.getMessage()}"
        for each in compatibility.getResult().getIncompatibilities()
    ]
    found += other_units(reader, text)
    if found:
        return ended, "cannot be read with this pipeline's: " + "; ".join(found)
    if unread := unread_fields(reader, text):
        log.warning(
            "the schema with id %d has fields that this pipeline's has not, so they are not read: "
            "%s",
            registered.id,
            ", ".join(unread),
        )
    return ended, None
