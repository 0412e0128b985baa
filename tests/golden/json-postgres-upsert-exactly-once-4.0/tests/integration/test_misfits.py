"""Values that no column can hold, when they are too many, or others each time they are read."""

import pytest
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from orders_pipeline import merging, misfits
from orders_pipeline.batch import Refused
from orders_pipeline.errors import BatchError
from orders_pipeline.settings import Topic

from tests.support.pipeline import MakePipeline, event
from tests.support.transforms import transform_to

FAR_DAY = "make_date(10000, 1, 1)"


def test_batch_stops_when_too_many_values_fit_no_column(
    make: MakePipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = make()
    monkeypatch.setattr(misfits, "MAX_UNFIT", 2)
    transform_to(monkeypatch, due=F.expr(FAR_DAY))
    pipeline.send(*(event(f"n{n}", n) for n in range(3)))

    with pytest.raises(BatchError, match=r"More than 2 rows .*; the first: due is not of the year"):
        pipeline.drain()

    assert pipeline.rows() == []


def test_batch_stops_when_its_rows_are_others_each_time(
    make: MakePipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row that fits no column when it is counted, and one when it is looked up, is not lost."""
    pipeline = make()
    transform_to(monkeypatch, due=F.expr(FAR_DAY))

    def look_up(rows: DataFrame, why: Column, found: int, topic: Topic) -> list[Refused]:
        return misfits.unfit_rows(rows, why, found + 1, topic)

    monkeypatch.setattr(merging, "unfit_rows", look_up)
    pipeline.send(event("a", 1))

    with pytest.raises(BatchError, match=r"gives other rows .* Nothing of it was written"):
        pipeline.drain()

    assert pipeline.rows() == []
