"""Looks at everything that a run needs and says what it finds, without writing anything."""

from collections.abc import Callable

from pyspark.sql import SparkSession

from . import binding, kafka_topics, schema, table
from .backfill import stream_position
from .checkpoint import Checkpoint
from .columns import row_columns
from .compatibility import TYPE, compare
from .differences import cannot_read
from .errors import PipelineError, RefusedError, first_line
from .names import table_columns
from .new_fields import read_schema, remembered
from .registry import SchemaType, latest, subject_of, writer_schemas
from .settings import Settings, Topic
from .widening import lacking

Check = Callable[[SparkSession, Topic], str]


def examine(spark: SparkSession, settings: Settings, schemas_only: bool = False) -> bool:
    """Prints a line for each thing examined; False if one would stop a run, or reject its records.

    With ``schemas_only``, nothing but ``schemas/`` and the schema registry is looked at.
    """
    checks = SCHEMA_CHECKS if schemas_only else CHECKS
    healthy = True
    for name in settings.topics:
        topic = settings.topic_settings(name)
        causes: dict[str, str] = {}
        print(f"\n{name} -> {topic.location}")
        for what, look in checks.items():
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


def _registry(spark: SparkSession, topic: Topic) -> str:
    newest = latest(topic, TYPE)
    return f"{subject_of(topic)}, newest version {newest.version}, id {newest.id}"


def _compatibility(spark: SparkSession, topic: Topic) -> str:
    return compare(topic)


def _keys(spark: SparkSession, topic: Topic) -> str:
    key_format = topic.table.key_format
    if key_format == "string" or not topic.table.key_framed:
        return f"{key_format}, without a schema's id"
    newest = max(writer_schemas(topic, KEY_TYPES[key_format], "key"))
    return f"{key_format}, {subject_of(topic, 'key')}, newest id {newest}"


def _new_fields(spark: SparkSession, topic: Topic) -> str:
    new = lacking(schema.read_schema(topic), remembered(topic))
    if not new:
        return f"registry.new_fields is {topic.settings.registry.new_fields}, none is taken up"
    named = [f"{each} of version {each.version}" for each in new]
    newest = latest(topic, TYPE)
    if problems := cannot_read(topic, read_schema(topic), newest):
        raise RefusedError(
            f"taken up: {', '.join(named)}; with those, what is written with version "
            f"{newest.version} is not read: {'; '.join(problems)}"
        )
    return f"taken up; put them into {topic.schema_path}, at its end: {', '.join(named)}"


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
        return f"{topic.location} does not exist yet; a run makes it"
    commits = table.commits(spark, topic)
    label = next((commit.label for commit in commits if commit.label), None)
    return f"version {commits[0].version if commits else 0}, newest batch {label}"


def _binding(spark: SparkSession, topic: Topic) -> str:
    problem = binding.find_problem(spark, topic)
    if problem:
        raise RefusedError(problem)
    return "the topic, the table and the checkpoint belong together"


SCHEMA_CHECKS: dict[str, Check] = {
    "schema registry": _registry,
    "compatibility": _compatibility,
    "keys": _keys,
}
KEY_TYPES: dict[str, SchemaType] = {"json": "JSON", "avro": "AVRO"}
"""What the registry calls the key formats whose keys bear a schema's id."""
CHECKS: dict[str, Check] = {
    "schema": _schema,
    **SCHEMA_CHECKS,
    "new fields": _new_fields,
    "columns": _columns,
    "topic": _topic,
    "dead letters": _dead_letters,
    "checkpoint": _checkpoint,
    "lag": _lag,
    "table": _table,
    "binding": _binding,
}
