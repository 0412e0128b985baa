"""The Iceberg catalog that knows a topic's table, and the table as Iceberg's own library has it."""

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from .errors import NoAnswerError
from .settings import Topic

SECRETS = {"PIPELINE_CATALOG_CREDENTIAL": "credential", "PIPELINE_CATALOG_TOKEN": "token"}
"""What a REST catalog is told in secret: a variable of the environment, the property it becomes."""
PATIENCE = {
    "rest.client.connection-timeout-ms": "10000",
    "rest.client.socket-timeout-ms": "60000",
}
"""How long a REST catalog is waited for, unless the settings say: Iceberg would without end."""
NO_ANSWER = {
    *("RESTException", "ServiceFailureException", "ServiceUnavailableException"),
    *("TTransportException", "MetaException", "RuntimeMetaException"),
}
"""What Iceberg raises where its service is away or in trouble: a REST catalog, a Hive metastore."""
MISSING = {"NoSuchTableException", "NoSuchNamespaceException"}
"""What it raises where there is no such table."""


def open_catalog(spark: SparkSession, topic: Topic) -> str:
    """Tells the session of the topic's catalog, once; returns the name that it has there.

    In the session alone, and late: what Spark is started with is shown on its pages.
    """
    table = topic.table
    properties = {
        **PATIENCE,
        **table.catalog_properties,
        "type": table.catalog,
        "cache-enabled": "false",  # other processes write the tables too
        **({"warehouse": topic.warehouse} if topic.warehouse else {}),
        **({"uri": table.catalog_uri} if table.catalog_uri else {}),
    }
    told = json.dumps(properties, sort_keys=True)
    key = f"spark.sql.catalog.lake_{hashlib.sha256(told.encode()).hexdigest()[:8]}"
    if spark.conf.get(key, None) is None:
        if os.environ.get("AWS_ENDPOINT_URL_S3"):  # not Amazon's: no host has a bucket's name
            properties = {"s3.path-style-access": "true"} | properties
        for variable, name in SECRETS.items():
            if table.catalog == "rest" and variable in os.environ:
                properties[name] = os.environ[variable]
        for name, value in properties.items():
            spark.conf.set(f"{key}.{name}", value)
        spark.conf.set(key, "org.apache.iceberg.spark.SparkCatalog")
    return key.rpartition(".")[2]


def namespace(spark: SparkSession, topic: Topic) -> str:
    """The namespace of the topic's table, as SQL takes it."""
    return f"{open_catalog(spark, topic)}.{topic.table.namespace}"


def full_name(spark: SparkSession, topic: Topic) -> str:
    """The topic's table, as SQL takes it: catalog, namespace, name."""
    return f"{namespace(spark, topic)}.{quoted(topic.table_name)}"


def load(spark: SparkSession, topic: Topic) -> Any:
    """The table as it is now: ``org.apache.iceberg.Table``; None where there is none."""
    name = full_name(spark, topic)
    jvm: Any = spark._jvm
    session: Any = spark._jsparkSession
    try:
        # Else a catalog that cannot be opened would be taken for a namespace of Spark's own.
        session.sessionState().catalogManager().catalog(open_catalog(spark, topic))
        return jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(session, name)
    except (PySparkException, Py4JJavaError) as error:
        if MISSING & names(error):
            return None
        raise


@contextmanager
def answers(topic: Topic) -> Iterator[None]:
    """Around what asks the catalog before anything of a batch is done.

    Raises:
        NoAnswerError: its service does not answer, or is in trouble.
    """
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        if not NO_ANSWER & names(error):
            raise
        raise NoAnswerError(
            f"The catalog at {topic.table.catalog_uri}, which knows the table of {topic.name}, "
            f"does not answer, or not as it should: {java_causes(error)[-1].toString()}. "
            "Nothing was written. Start again once it does."
        ) from error


def java_causes(error: BaseException) -> list[Any]:
    """What Java says of an error: its exception, and those that caused it."""
    found = []
    cause: Any = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    while cause is not None:
        found.append(cause)
        cause = cause.getCause()
    return found


def names(error: BaseException) -> set[str]:
    """The Java classes of an error and of what caused it, without their packages."""
    return {str(cause.getClass().getSimpleName()) for cause in java_causes(error)}


def call(spark: SparkSession, topic: Topic, procedure: str, arguments: str = "") -> DataFrame:
    """Does one of Iceberg's procedures to the table; ``arguments`` are more than its name."""
    table = f"table => '{topic.table.namespace}.{topic.table_name}'"
    given = ", ".join(filter(None, [table, arguments]))
    return spark.sql(f"CALL {open_catalog(spark, topic)}.system.{procedure}({given})")


def quoted(name: str) -> str:
    """A column's name as SQL takes it, whatever is in it."""
    return "`" + name.replace("`", "``") + "`"
