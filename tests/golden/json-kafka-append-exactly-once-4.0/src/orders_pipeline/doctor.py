"""Looks at everything that a run needs and says what it finds, without writing anything."""

from collections.abc import Callable

from pyspark.sql import SparkSession

from . import binding, kafka_topics, table
from .backfill import stream_position
from .checkpoint import Checkpoint
from .columns import row_columns
from .errors import PipelineError, RefusedError, first_line
from .names import table_columns
from .schema import read_schema
from .settings import Settings, Topic

Check = Callable[[SparkSession, Topic], str]


def examine(spark: SparkSession, settings: Settings) -> bool:
    """Prints a line for each thing examined; False if any of them would stop a run."""
    healthy = True
    for name in settings.topics:
        topic = settings.topic_settings(name)
        causes: dict[str, str] = {}
        print(f"\n{name} -> {topic.location}")
        for what, look in CHECKS.items():
            try:
                print(f"  ok    {what}: {look(spark, topic)}")
            except PipelineError as error:
                healthy = False
                first = causes.setdefault(str(error), what)
                print(f"  FAIL  {what}: {error if first == what else f'see {first}, above'}")
            except Exception as error:
                healthy = False
                print(f"  FAIL  {what}: {first_line(error)}")
    return healthy


def _schema(spark: SparkSession, topic: Topic) -> str:
    fields = read_schema(topic)
    columns = table_columns(fields)
    renamed = {f.name: c.name for f, c in zip(fields, columns, strict=True) if f.name != c.name}
    found = f"{len(fields)} fields by {topic.schema_path}"
    return f"{found}, renamed {renamed}" if renamed else found


def _columns(spark: SparkSession, topic: Topic) -> str:
    return f"transform.py gives {', '.join(row_columns(spark, topic, read_schema(topic)).names)}"


def _topic(spark: SparkSession, topic: Topic) -> str:
    partitions = kafka_topics.partition_count(topic.settings, topic.name)
    identity = kafka_topics.topic_id(topic.settings, topic.name)
    return f"{partitions} partitions at {topic.settings.kafka.bootstrap_servers}, id {identity}"


def _dead_letters(spark: SparkSession, topic: Topic) -> str:
    try:
        partitions = kafka_topics.partition_count(topic.settings, topic.dead_letters)
    except RefusedError:
        return f"{topic.dead_letters} does not exist yet; a run makes it"
    end = kafka_topics.offsets_at(topic.settings, topic.dead_letters, kafka_topics.LATEST)
    return f"{topic.dead_letters}, {partitions} partitions, ends at {end}"


def _checkpoint(spark: SparkSession, topic: Topic) -> str:
    checkpoint = Checkpoint(spark, topic.checkpoint, topic.name)
    planned, committed = checkpoint.planned(), checkpoint.committed()
    if planned is None:
        return f"{topic.checkpoint} is new"
    return f"{topic.checkpoint}, batch {planned} planned, batch {committed} committed"


def _lag(spark: SparkSession, topic: Topic) -> str:
    if Checkpoint(spark, topic.checkpoint, topic.name).committed() is None:
        return "no batch is committed yet"
    position = stream_position(spark, topic)
    end = kafka_topics.offsets_at(topic.settings, topic.name, kafka_topics.LATEST)
    behind = {p: offset - position.get(p, 0) for p, offset in end.items()}
    return f"{sum(behind.values())} offsets behind, by partition {behind}"


def _table(spark: SparkSession, topic: Topic) -> str:
    if not table.exists(spark, topic):
        if topic.table.missing == "refuse":
            raise table.no_table(topic)
        return f"{topic.location} does not exist yet; a run makes it"
    return f"newest batches {table.newest_labels(spark, topic)}"


def _binding(spark: SparkSession, topic: Topic) -> str:
    problem = binding.find_problem(spark, topic)
    if problem:
        raise RefusedError(problem)
    return "the topic, the table and the checkpoint belong together"


CHECKS: dict[str, Check] = {
    "schema": _schema,
    "columns": _columns,
    "topic": _topic,
    "dead letters": _dead_letters,
    "checkpoint": _checkpoint,
    "lag": _lag,
    "table": _table,
    "binding": _binding,
}
