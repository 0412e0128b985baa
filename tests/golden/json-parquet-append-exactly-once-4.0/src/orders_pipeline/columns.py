"""What ``transform.py`` makes of a topic's rows: the columns of its table, or a refusal to start.

All that can be known without a record is checked here, rather than by a first batch that fails.
"""

from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import ArrayType, MapType, StructField, StructType

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
    no_records = spark.createDataFrame(spark.sparkContext.emptyRDD(), RECORDS)
    counted, _ = observe(no_records, read=every())
    decoded = Decoder(spark, topic, fields).decode(counted)
    rows = _transformed(accepted_rows(decoded), topic)
    columns = StructType([StructField(c.name, c.dataType) for c in rows.schema])
    _check_own_columns(topic, rows.columns)
    _check_named_columns(topic, columns)
    _check_reads_all(topic, rows)
    return columns


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
        "table.partition_columns": topic.table.partition_columns,
    }
    for setting, names in named.items():
        for name in names:
            if name.lower() not in types:
                raise SettingsError(
                    f"{setting} names {name!r}, which the table of {topic.name} would not have. "
                    f"After transform.py its columns are: {', '.join(columns.fieldNames())}"
                )
            kind = types[name.lower()]
            if name.startswith("_") or isinstance(kind, ArrayType | MapType | StructType):
                raise SettingsError(
                    f"{setting} names {name!r}, {kind.simpleString()} in the table of "
                    f"{topic.name}. Readers leave out folders whose names begin with _, and none "
                    "is named by a list, a map or a struct. Name another, or make one in "
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
