"""A topic whose values bear a schema registry's header, where bare ones were promised."""

import pytest

from orders_pipeline.errors import BreakerTripped

from tests.support.pipeline import MakePipeline, encoded, event


def test_topic_of_framed_values_stops_and_the_error_names_the_answer_to_change(
    make: MakePipeline,
) -> None:
    """Sent: a bare record, and three in a schema registry's wire format."""
    pipeline = make(breaker={"min_rejected": 3})
    key, value, *rest = encoded(pipeline.topic, event("a", 1))
    pipeline.send((key, value, *rest), *[(key, b"\0\0\0\0\1" + value, *rest)] * 3)

    with pytest.raises(BreakerTripped, match="--data schema_registry=confluent"):
        pipeline.drain()

    assert [row.id for row in pipeline.rows()] == ["a"]
    reasons = [x.headers["__connect.errors.exception.class.name"] for x in pipeline.letters()]
    assert reasons == [b"framed"] * 3
