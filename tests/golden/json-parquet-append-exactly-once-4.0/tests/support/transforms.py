"""A transform of a test's own, in the place of the repository's."""

import pytest
from pyspark.sql import Column

from orders_pipeline import backfill, columns, pipeline


def transform_to(monkeypatch: pytest.MonkeyPatch, **made: Column) -> None:
    """Has transform.py add these columns."""
    for module in (backfill, columns, pipeline):
        monkeypatch.setattr(module, "transform", lambda topic, rows: rows.withColumns(made))
