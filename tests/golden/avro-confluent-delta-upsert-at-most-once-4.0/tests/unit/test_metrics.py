"""What Prometheus is told."""

from dataclasses import replace

from prometheus_client import REGISTRY

from orders_pipeline import metrics
from orders_pipeline.batch import Balance


def sample(name: str, **labels: str) -> float | None:
    return REGISTRY.get_sample_value(name, labels)


def test_records_of_a_batch_are_counted_by_outcome() -> None:
    balance = Balance(batch=7, read=4, written=2, dead_lettered=1, filtered=1, skipped=0)
    metrics.publish(balance, "counted", seconds=1.5)
    metrics.publish(balance, "counted", seconds=2.5)

    outcomes = {"read": 8, "written": 4, "dead_lettered": 2, "filtered": 2, "skipped": 0}
    for outcome, count in outcomes.items():
        assert sample("ingest_records_total", topic="counted", outcome=outcome) == count
    assert sample("ingest_batches_total", topic="counted") == 2
    assert sample("ingest_batch_seconds", topic="counted") == 2.5
    assert not sample("ingest_unbalanced_batches_total", topic="counted")


def test_batch_that_does_not_add_up_is_counted_as_such() -> None:
    balance = Balance(batch=7, read=4, written=4, dead_lettered=0, filtered=0, skipped=0)
    for unbalanced in (replace(balance, read=5), replace(balance, written=5, filtered=-1)):
        metrics.publish(unbalanced, "lost", seconds=1)
    assert sample("ingest_unbalanced_batches_total", topic="lost") == 2


def test_lag_is_what_the_query_has_not_read_of_all_partitions() -> None:
    source = {"latestOffset": '{"late": {"0": 5, "1": 3}}', "endOffset": {"late": {"0": 3}}}
    metrics.publish_lag("late", {"sources": [source]})
    assert sample("ingest_lag_records", topic="late") == 5
    metrics.publish_lag("late", None)
    assert sample("ingest_lag_records", topic="late") == 5
