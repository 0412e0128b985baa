"""The command line. Each command logs to standard error what it does."""

import argparse
import logging
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from . import backfill, doctor, kafka_topics, metrics, streams, table
from .batch import Offsets, read_offsets
from .errors import BatchError, PipelineError, SettingsError, first_line
from .settings import Settings, Topic, load
from .spark import start_session

EXIT_CODES = """\
exit codes:
  0  done, or stopped by SIGTERM between two batches
  1  something could not be reached, or a batch, a query or a command failed; or doctor found
     something wrong
  2  wrong usage or settings, or transform.py fails
  3  refused: going on would lose or repeat records
  4  the breaker tripped; its batch is complete
"""
TAKEN = (
    "Some of its rows may be in the table already; to repeat it is safe. If the table or a column "
    "is lacking, start the stream once first (`run`), else mend what is wrong; then give the same "
    "command again."
)
log = logging.getLogger(__name__)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; returns the exit code."""
    options = _parser().parse_args(arguments)
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)-7s %(message)s", stream=sys.stderr
    )
    for chatty in ("py4j", "DataFrameQueryContextLogger"):
        logging.getLogger(chatty).setLevel(logging.CRITICAL)
    try:
        return int(options.command(load(), options))
    except PipelineError as error:
        log.error("%s", error)
        return error.exit_code


def _run(settings: Settings, options: argparse.Namespace) -> int:
    stopping = threading.Event()
    _set_on_signals(stopping)
    for name in options.rebind:
        settings.topic_settings(name)  # or it is no topic of this pipeline
    metrics.serve(settings.metrics.port)
    spark = start_session(settings.name)
    _set_on_signals(stopping)  # again: Spark takes Ctrl-C for itself as it starts
    streams.run(spark, settings, stopping, options.rebind)
    return 0


def _set_on_signals(stopping: threading.Event) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())


def _backfill(settings: Settings, options: argparse.Namespace) -> int:
    topic = settings.topic_settings(options.topic)
    start = _offsets(topic, options.from_offsets, options.from_time)
    end = _offsets(topic, options.to_offsets, options.to_time)
    spark = start_session(settings.name, show_progress=True)
    with _explained("backfill", topic, TAKEN):
        backfill.backfill(spark, topic, start or {}, end)
    return 0


def _replay(settings: Settings, options: argparse.Namespace) -> int:
    topic = settings.topic_settings(options.topic)
    since_ms = _milliseconds(options.since) if options.since else 0
    spark = start_session(settings.name, show_progress=True)
    with _explained("replay", topic, TAKEN):
        backfill.replay(spark, topic, options.reason, since_ms)
    return 0


@contextmanager
def _explained(command: str, topic: Topic, what_now: str) -> Iterator[None]:
    """Turns an error into sentences that end with what was done and what to do."""
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        raise BatchError(
            f"The {command} of {topic.name} could not be finished: {first_line(error)}. {what_now}"
        ) from error
    except BatchError as error:
        raise BatchError(
            f"The {command} of {topic.name} could not be finished. {error} Here that means: give "
            "the same command again, which adds no row twice."
        ) from error


def _doctor(settings: Settings, options: argparse.Namespace) -> int:
    healthy = doctor.examine(start_session(settings.name), settings)
    return 0 if healthy else 1


def _compact(settings: Settings, options: argparse.Namespace) -> int:
    topics = [settings.topic_settings(name) for name in options.topics or settings.topics]
    spark = start_session(settings.name, show_progress=True)
    for topic in topics:
        log.info("compacting %s", topic.location)
        with _explained("compact", topic, "No row is lost; to repeat it is safe."):
            table.compact(spark, topic, options.retention_hours)
    return 0


def _offsets(topic: Topic, offsets: str | None, time: str | None) -> Offsets | None:
    if offsets is not None:
        try:
            return read_offsets(offsets)
        except ValueError as error:
            raise SettingsError(str(error)) from None
    if time is not None:
        moment = kafka_topics.at_time(_milliseconds(time))
        return kafka_topics.offsets_at(topic.settings, topic.name, moment)
    return None


def _milliseconds(time: str) -> int:
    try:
        moment = datetime.fromisoformat(time)
    except ValueError:
        moment = datetime.min
    if moment.tzinfo is None:
        example = "2026-01-31T08:00+00:00"
        raise SettingsError(f"{time!r} is not a time with a zone. Write for example: {example}")
    return round(moment.timestamp() * 1000)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=f"python -m {__package__}",
        description="From Kafka topics to tables.",
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(required=True, metavar="command")

    run = commands.add_parser(
        "run",
        help="ingest every topic, until stopped",
        description="Ingests every topic into its table until SIGTERM, which lets the batch in "
        "hand finish; with the trigger availableNow, until all that is there is read.",
    )
    run.add_argument(
        "--rebind",
        action="append",
        default=[],
        metavar="TOPIC",
        help="accept that this topic, its table and its checkpoint do not belong together",
    )
    run.set_defaults(command=_run)

    fill = commands.add_parser(
        "backfill",
        help="take a range of a topic into its table again",
        description="Takes a range of a topic into its table, beside the running stream. What the "
        "table has already stays as it is. Of a partition that --from-offsets leaves out all is "
        "taken from its oldest record on; of one that --to-offsets leaves out, nothing.",
    )
    fill.add_argument("topic")
    for end, where in (("from", "first record"), ("to", "end, not included; else the stream's")):
        offsets = where + ': {"0": 120, ...}'
        time = f"{where}: 2026-01-31T08:00+00:00"
        either = fill.add_mutually_exclusive_group(required=end == "from")
        either.add_argument(f"--{end}-offsets", metavar="JSON", help=offsets)
        either.add_argument(f"--{end}-time", metavar="TIME", help=time)
    fill.set_defaults(command=_backfill)

    again = commands.add_parser(
        "replay",
        help="take dead letters that decode now into the table",
        description="Takes the dead letters of a topic that can be decoded now into its table, "
        "beside the running stream. The letters stay; replayed twice, they change nothing.",
    )
    again.add_argument("topic")
    again.add_argument("--reason", help="only letters with this reason, for example missing_field")
    again.add_argument("--since", metavar="TIME", help="only letters since then")
    again.set_defaults(command=_replay)

    look = commands.add_parser(
        "doctor",
        help="look at everything that a run needs; write nothing",
        description="Looks at the settings, the brokers, the topics, the tables and the "
        "checkpoints, and says what a run would refuse and how far behind it is. Writes nothing.",
    )
    look.set_defaults(command=_doctor)

    fold = commands.add_parser(
        "compact",
        help="fold small files, remove those no longer needed",
        description="Folds the small files of the tables into large ones, beside the running "
        "stream, and removes the files of versions older than the retention.",
    )
    fold.add_argument("topics", nargs="*", metavar="topic", help="all, when none is named")
    fold.add_argument(
        "--retention-hours", type=int, default=168, help="age of versions to keep, 168 at least"
    )
    fold.set_defaults(command=_compact)
    return parser
