"""Records to the output topic by Spark's own Kafka sink."""

from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from . import kafka, kafka_topics
from .batch import Refused, Written
from .counting import every, observe
from .delivery import AFTER_A_FAILURE
from .errors import BatchError
from .positions import HEADER, HEADROOM_BYTES
from .settings import Topic
from .shapes import HEADERS

ACKNOWLEDGED = {"kafka.acks": "all", "kafka.enable.idempotence": "true"}
"""Every replica in sync has the record, and has it once however often it is sent."""
V1 = "spark.sql.sources.useV1SourceList"


def send(records: DataFrame, topic: Topic, producer: dict[str, str]) -> Written:
    """Sends *output records* (``sink.py``); those refused are left out and named.

    Raises:
        BatchError: not all could be sent; those that were are there.
    """
    limit = kafka_topics.max_message_bytes(topic.settings, topic.location)
    is_refused = F.col("refused").isNotNull()
    passed_on = F.coalesce(F.from_json("headers", HEADERS), F.array().cast(HEADERS))
    records = records.withColumn("headers", passed_on)
    counted, counts = observe(records, received=every(), refused=F.count_if(is_refused))
    chosen = counted.where(~is_refused)
    try:
        with _counting_sink(records.sparkSession):
            (
                chosen.select("topic", "partition", "key", "value", _headers(topic))
                .write.format("kafka")
                .mode("append")
                .options(**kafka.spark_options(topic.settings), **producer)
                .option("kafka.max.request.size", limit)
                .option("kafka.buffer.memory", max(kafka.BUFFER_BYTES, limit + HEADROOM_BYTES))
                .option("kafka.delivery.timeout.ms", 60_000)
                .option("kafka.request.timeout.ms", 20_000)
                .option("kafka.max.block.ms", 30_000)
                .save()
            )
    except (PySparkException, Py4JJavaError) as error:
        raise BatchError(
            f"The rows of {topic.name} could not all be sent to {topic.location}: "
            f"{kafka.cause(error)}. The batch is not committed; some of its rows may be there "
            f"already. Mend the topic or the brokers, then {AFTER_A_FAILURE}."
        ) from error
    received, refused = int(counts.get["received"]), int(counts.get["refused"])
    found: list[Refused] = []
    if refused:
        rows = records.where(is_refused).select("_partition", "_offset", "refused").collect()
        found = [Refused(*row) for row in rows]
    return Written(received=received, written=received - refused, refused=found)


@contextmanager
def _counting_sink(spark: SparkSession) -> Iterator[None]:
    """The second version of Spark's Kafka sink: what is observed never arrives from the first."""
    before = spark.conf.get(V1) or ""
    others = [name for name in before.split(",") if name != "kafka"]
    spark.conf.set(V1, ",".join(others))
    try:
        yield
    finally:
        spark.conf.set(V1, before)


def _headers(topic: Topic) -> Column:
    """Those of the source's record, then those that say where that is."""
    values = {
        "topic": F.lit(topic.name),
        "partition": F.col("_partition"),
        "offset": F.col("_offset"),
        "timestamp": F.col("_timestamp"),
    }
    ours = (
        F.struct(
            F.lit(HEADER + name).alias("key"), value.cast("string").cast("binary").alias("value")
        )
        for name, value in values.items()
    )
    return F.concat("headers", F.array(*ours).cast(HEADERS)).alias("headers")
