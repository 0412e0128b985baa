"""Whether, and how, records of one Avro schema can be read with another."""

from functools import lru_cache
from typing import Any, NamedTuple

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from .avro import with_end
from .avro_versions import other_units
from .registry import Registered


class Resolution(NamedTuple):
    """What is known of a writer's schema, for a reader's."""

    schema: str
    """Its text, with all that it refers to; empty if it does not parse."""
    writer: str
    """The same for ``avro.read``."""
    problem: str | None
    """Why the reader cannot read its records: a sentence with facts of the two schemas alone."""


@lru_cache(maxsize=1024)
def resolve(spark: SparkSession, reader: str, registered: Registered) -> Resolution:
    """How records of a version in the registry are read with the schema ``reader``."""
    jvm: Any = spark._jvm
    # A default that is wrong in a writer's schema is never used.
    writers = getattr(jvm.org.apache.avro, "Schema$Parser")().setValidateDefaults(False)
    try:
        for reference in registered.references:
            writers.parse(reference.schema)
        text = str(writers.parse(registered.schema).toString())
        ended = with_end(spark, text)
    except (Py4JJavaError, PySparkException) as error:
        message = str(getattr(error, "java_exception", error)).splitlines()[0]
        return Resolution("", "", f"does not parse: {message}")
    found = incompatibilities(spark, reader, text)
    problem = "cannot be read with this pipeline's: " + "; ".join(found) if found else None
    return Resolution(text, ended, problem)


def incompatibilities(spark: SparkSession, reader: str, writer: str) -> list[str]:
    """Why Avro cannot read records of the one schema with the other; empty if it can."""
    avro: Any = spark._jvm.org.apache.avro  # type: ignore[union-attr]

    def parsed(text: str) -> Any:
        return getattr(avro, "Schema$Parser")().setValidateDefaults(False).parse(text)

    check = avro.SchemaCompatibility.checkReaderWriterCompatibility
    found = [
        f"{each.getType()} at {each.getLocation()}: {each.getMessage()}"
        for each in check(parsed(reader), parsed(writer)).getResult().getIncompatibilities()
    ]
    return found + other_units(reader, writer)
