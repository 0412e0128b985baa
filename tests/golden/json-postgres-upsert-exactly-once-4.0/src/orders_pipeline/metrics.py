"""Counters, and the balance of every batch: nothing that was read goes missing unnoticed."""

import json
import logging
from dataclasses import asdict
from typing import Any

from prometheus_client import Counter, Gauge, start_http_server

from .batch import Balance
from .errors import SettingsError

log = logging.getLogger(__name__)

RECORDS = Counter(
    "ingest_records_total",
    "Records by what became of them: read, or one of the outcomes that add up to it",
    ["topic", "outcome"],
)
BATCHES = Counter("ingest_batches_total", "Batches finished", ["topic"])
UNBALANCED = Counter("ingest_unbalanced_batches_total", "Batches that did not add up", ["topic"])
BATCH_SECONDS = Gauge("ingest_batch_seconds", "Duration of the newest batch, in s", ["topic"])
LAG_RECORDS = Gauge("ingest_lag_records", "Offsets not yet read, all partitions", ["topic"])


def publish(balance: Balance, topic: str, seconds: float) -> None:
    """One line of JSON in the log and the counters. Never fails a batch."""
    try:
        line = {"topic": topic, **asdict(balance), "seconds": round(seconds, 3)}
        log.info("balance %s", json.dumps(line))
        RECORDS.labels(topic, "read").inc(balance.read)
        for outcome, count in balance.outcomes.items():
            RECORDS.labels(topic, outcome).inc(max(count, 0))
        BATCHES.labels(topic).inc()
        BATCH_SECONDS.labels(topic).set(seconds)
        if not balance.holds:
            UNBALANCED.labels(topic).inc()
            log.error(
                "batch %d of %s does not balance: read %d, accounted for %d. This is an error in "
                "the program, in transform.py if filtered is negative (it may give at most one "
                "row for each that it gets): %s",
                balance.batch,
                topic,
                balance.read,
                sum(balance.outcomes.values()),
                balance.outcomes,
            )
    except Exception:
        log.exception("the balance of a batch of %s could not be published", topic)


def publish_lag(topic: str, progress: dict[str, Any] | None) -> None:
    """Sets the lag from Spark's progress report of a query. Never fails a query."""
    try:
        if progress and progress["sources"]:
            source = progress["sources"][0]
            latest, read = (_offsets(source[name], topic) for name in ("latestOffset", "endOffset"))
            behind = sum(offset - read.get(partition, 0) for partition, offset in latest.items())
            LAG_RECORDS.labels(topic).set(behind)
    except Exception:
        log.exception("the lag of %s could not be published", topic)


def _offsets(text: Any, topic: str) -> dict[str, int]:
    found = json.loads(text) if isinstance(text, str) else text
    return dict((found or {}).get(topic, {}))


def serve(port: int) -> None:
    """Opens the Prometheus endpoint, unless ``port`` is 0.

    Raises:
        SettingsError: the port cannot be opened.
    """
    if not port:
        return
    try:
        start_http_server(port)
    except OSError as error:
        raise SettingsError(
            f"metrics.port is {port}, which cannot be opened: {error.strerror}. Nothing was "
            "started. Name a port that is free, or 0 for no endpoint; then start again."
        ) from error
