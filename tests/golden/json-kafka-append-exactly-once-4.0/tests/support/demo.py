"""`make demo`: a real broker, good and bad sample records, the job, and what came of it."""

import json
import os
import shutil
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from orders_pipeline import table
from orders_pipeline.cli import main
from orders_pipeline.schema import read_schema
from orders_pipeline.settings import Topic, load
from orders_pipeline.spark import start_session

from .broker import start_broker
from .environment import leave_out_settings
from .events import bad_records, good_records
from .topics import create_topic, produce, read_topic

FOLDER = Path("data/demo")
GOOD = 1_000


def demo() -> int:
    """Runs the demo in ``data/demo``; returns the exit code of the job.

    The settings are the defaults, and the topics of a broker of its own: nothing of yours is
    read or written but ``schemas/`` and ``transform.py``.
    """
    if ":" in os.environ.get("KAFKA_BROKER", ""):
        print("The demo fills topics, so it wants a broker of its own: unset KAFKA_BROKER.")
        return 2
    leave_out_settings()
    shutil.rmtree(FOLDER, ignore_errors=True)
    with start_broker() as broker:
        os.environ |= {
            "PIPELINE_KAFKA__BOOTSTRAP_SERVERS": broker.bootstrap_servers,
            "PIPELINE_CHECKPOINT_LOCATION": str(FOLDER / "checkpoints"),
            "PIPELINE_TRIGGER": "availableNow",
        }
        settings = load()
        spark = start_session(settings.name)
        topics = [settings.topic_settings(name) for name in settings.topics]
        for topic in topics:
            fields = read_schema(topic)
            create_topic(broker.bootstrap_servers, topic.name)
            produce(broker.bootstrap_servers, topic.name, good_records(fields, topic, GOOD))
            produce(broker.bootstrap_servers, topic.name, bad_records(fields, topic))
        code = main(["run"])
        if code == 0:
            for topic in topics:
                _show_table(spark, topic)
                _show_letters(broker.bootstrap_servers, topic)
        spark.stop()
    return code


def _show_table(spark: SparkSession, topic: Topic) -> None:
    records = table.read(spark, topic).orderBy("_partition", "_offset")
    print(f"\nThe topic {topic.location}: {records.count()} records, the first of them")
    records.select("_partition", "_offset", "value").show(5, truncate=100)


def _show_letters(bootstrap_servers: str, topic: Topic) -> None:
    letters = read_topic(bootstrap_servers, topic.dead_letters)
    print(f"The dead letters in {topic.dead_letters}: {len(letters)}")
    for letter in letters:
        about = {name.split("errors.")[-1]: _text(value) for name, value in letter.headers.items()}
        where = f"{topic.name} {about['partition']}:{about['offset']}"
        why = f"{about['exception.class.name']}: {about['exception.message']}"
        print(f"  {where:<14} {why:<78.78}  value {_text(letter.value):.40}")


def _text(value: bytes | None) -> str:
    return json.dumps((value or b"").decode(errors="replace")).strip('"') if value else "(none)"


if __name__ == "__main__":
    sys.exit(demo())
