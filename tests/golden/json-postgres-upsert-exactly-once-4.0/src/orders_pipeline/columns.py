"""What ``transform.py`` makes of a topic's rows: the columns of its table, or a refusal to start.

All that can be known without a record is checked here, rather than by a first batch that fails.
"""

from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructField, StructType, TimestampType

from .counting import every, observe
from .decoding import Decoder
from .errors import PipelineError, RefusedError, SettingsError, first_line
from .rows import accepted_rows
from .settings import Topic
from .shapes import RECORDS, RESERVED
from .transform import transform


def row_columns(spark: SparkSession, topic: Topic, fields: StructType) -> StructType:
    """The columns that the table gets: what ``transform`` gives back, all nullable.

    Raises:
        RefusedError: ``transform`` drops columns that the pipeline needs, or leaves records unread.
        SettingsError: the settings name a column that the table would not have, or ``transform``
            fails.
    """
    _check_key_columns(topic, fields)
    no_records = spark.createDataFrame(spark.sparkContext.emptyRDD(), RECORDS)
    counted, _ = observe(no_records, read=every())
    decoded = Decoder(spark, topic, fields).decode(counted)
    rows = _transformed(accepted_rows(decoded), topic)
    columns = StructType(
        [StructField(c.name, c.dataType) for c in rows.schema if c.name != "_deleted"]
    )
    _check_own_columns(topic, rows.columns)
    _check_named_columns(topic, columns)
    _check_reads_all(topic, rows)
    return columns


def _check_key_columns(topic: Topic, fields: StructType) -> None:
    required = [field.name for field in fields if not field.nullable]
    taken = [name.lower() for name in [*RESERVED, *fields.fieldNames()]]
    for column in topic.table.key_columns:
        if column not in required:
            raise SettingsError(
                f"The key column {column!r} of the topic {topic.name!r} is not a required field. "
                f"In {topic.schema_path}, write: {column} STRING NOT NULL"
            )
        if taken.count(column.lower()) > 1:
            raise SettingsError(
                f"The key column {column!r} of the topic {topic.name!r} differs from another field "
                "or from a column of the pipeline's own in nothing but case, which a table does "
                "not see. Choose another, or rename the field"
            )


def _transformed(rows: DataFrame, topic: Topic) -> DataFrame:
    try:
        given = transform(topic.name, rows)
        given.schema  # noqa: B018  # what is no DataFrame fails here as well
    except PipelineError:
        raise
    except Exception as error:
        raise SettingsError(
            f"transform.py fails for the topic {topic.name!r}: {first_line(error)}. Nothing was "
            "written. Mend it, then start again."
        ) from error
    return given


def _check_own_columns(topic: Topic, names: list[str]) -> None:
    missing = sorted(RESERVED - set(names))
    if missing:
        raise RefusedError(
            f"transform.py drops {missing} from the rows of {topic.name}. Nothing was written. "
            f"They are the pipeline's own; select them beside yours: {sorted(RESERVED)}"
        )


def _check_named_columns(topic: Topic, columns: StructType) -> None:
    types = {column.name.lower(): column.dataType for column in columns}
    named = {
        "table.key_columns": topic.table.key_columns,
        "table.newest_by": [topic.table.newest_by] if topic.table.newest_by else [],
    }
    for setting, names in named.items():
        for name in names:
            is_key = setting == "table.key_columns"  # looked up as it is spelt
            if name not in columns.fieldNames() if is_key else name.lower() not in types:
                raise SettingsError(
                    f"{setting} names {name!r}, which the table of {topic.name} would not have. "
                    f"After transform.py its columns are: {', '.join(columns.fieldNames())}"
                )
            if setting == "table.newest_by" and types[name.lower()] != TimestampType():
                raise SettingsError(
                    f"{setting} names {name!r}, which is {types[name.lower()].simpleString()} in "
                    f"the table of {topic.name}. Name a TIMESTAMP column, or make it one in "
                    "transform.py."
                )


def _check_reads_all(topic: Topic, rows: DataFrame) -> None:
    """Records are counted while they pass, so all of them have to."""
    steps = _steps_after_count(rows._jdf.queryExecution().optimizedPlan())
    if steps is None:
        raise RefusedError(
            f"transform.py gives no row of {topic.name}, whatever it is given: its filter is never "
            "true. Nothing was written. To ingest nothing of a topic, take it out of topics."
        )
    if not {"GlobalLimit", "LocalLimit"}.isdisjoint(steps):
        raise RefusedError(
            f"transform.py limits how many rows of {topic.name} a batch has, so the records beyond "
            "would be neither read nor counted. Nothing was written. Filter by a column instead."
        )


def _steps_after_count(plan: Any) -> list[str] | None:
    """Spark's names for what is done to the counted records; None if it needs none of them."""
    if plan.nodeName() == "CollectMetrics":
        return []
    children = plan.children()
    for number in range(children.size()):
        steps = _steps_after_count(children.apply(number))
        if steps is not None:
            return [plan.nodeName(), *steps]
    return None
