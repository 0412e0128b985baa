"""The Spark session and the jars that PySpark does not bring."""

import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from .errors import SettingsError

JARS = "jars"
"""The folder that ``make jars`` fills; ``PIPELINE_JARS`` names another."""


def jar_paths() -> list[str]:
    """The jars of the Kafka connector.

    Raises:
        SettingsError: the folder is empty or missing.
    """
    folder = Path(os.environ.get("PIPELINE_JARS", JARS))
    jars = sorted(str(jar.resolve()) for jar in folder.glob("*.jar"))
    if not jars:
        raise SettingsError(f"There are no jars in {folder.resolve()}. Run: make jars")
    return jars


def start_session(name: str, master: str = "local[*]", show_progress: bool = False) -> SparkSession:
    """The session that every query of this process shares.

    ``spark-submit`` has a master of its own, which wins over ``master``. With ``show_progress`` a
    terminal shows how far each of Spark's stages is.

    Raises:
        SettingsError: the jars are missing.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(name)
    if "PYSPARK_GATEWAY_PORT" not in os.environ:  # which spark-submit sets
        builder = builder.master(master)
        # Left to itself, Spark may pick an address that its own executor cannot reach.
        builder = builder.config("spark.driver.host", "127.0.0.1")
        builder = builder.config("spark.driver.bindAddress", "127.0.0.1")
        builder = builder.config("spark.ui.enabled", "false")
    # PySpark counts as a shell, which shows it unless told not to.
    on_terminal = show_progress and sys.stderr.isatty()
    builder = builder.config("spark.ui.showConsoleProgress", str(on_terminal).lower())
    for key, value in OPTIONS.items():
        builder = builder.config(key, value)
    spark = builder.config("spark.jars", ",".join(jar_paths())).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    cores = str(spark.sparkContext.defaultParallelism)
    spark.conf.set("spark.sql.shuffle.partitions", cores)
    return spark


OPTIONS = {
    "spark.sql.session.timeZone": "UTC",
    # By Spark's default, INT96, other readers find another moment outside the years 1678 to 2261.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
    "spark.scheduler.mode": "FAIR",
    # It leaves out steps that it finds empty, and with them what they count.
    "spark.sql.adaptive.enabled": "false",
}
