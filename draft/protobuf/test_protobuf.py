"""The Protobuf decoder against google.protobuf, record by record, and what it refuses to start."""

import random
from datetime import datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from generated import damaged, random_record, verdict
from tryout.decode import decode_values
from tryout.protobuf_files import find_message, record_message
from tryout.protobuf_types import arrow_fields

SCHEMAS = Path(__file__).parent / "schemas"
SETS = {path.stem: path.read_bytes() for path in sorted(SCHEMAS.glob("*.binpb"))}
MESSAGES = ["orders", "scalars", "legacy", "modern"]


def comparable(value):
    """*value* so that equal ones have equal texts: NaN, -0.0, DECIMAL(20, 0) for any integer."""
    if isinstance(value, dict):
        return {name: comparable(inner) for name, inner in value.items()}
    if isinstance(value, tuple):
        return tuple(comparable(inner) for inner in value)
    if isinstance(value, list):
        made = [comparable(inner) for inner in value]
        return sorted(made, key=repr) if made and isinstance(made[0], tuple) else made
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Decimal):
        return repr(int(value))
    return repr(value)


def check(name: str, values: list[bytes]) -> None:
    message = record_message(SETS[name])
    kind = find_message(SETS[name], message)
    decoded = decode_values(pa.array(values, pa.binary()), SETS[name], message, "ignore")
    decoded.rows.validate(full=True)
    assert decoded.rows.type == pa.struct(list(arrow_fields(SETS[name], message)))
    columns = (column.to_pylist() for column in decoded)
    for value, row, reason, text in zip(values, *columns, strict=True):
        expected, reasons = verdict(kind, value)
        if "closed_enum" in reasons:
            continue  # what Protobuf hides as an unknown field, the column shows
        if name == "legacy" and text == "A string in the value is not UTF-8":
            continue  # of proto2 google.protobuf takes any
        assert (reason in reasons) if reasons else (reason is None), (value, reason, reasons)
        assert (row is None) == (reason is not None) == (text is not None)
        if expected is not None:
            for field in expected:
                assert str(comparable(row[field])) == str(comparable(expected[field])), (
                    field,
                    value,
                )


many = settings(
    max_examples=40, deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.generate]
)


@pytest.mark.parametrize("name", MESSAGES)
def test_row_is_what_google_reads_when_the_record_is_good(name):
    kind = find_message(SETS[name], record_message(SETS[name]))

    @many
    @given(st.randoms(use_true_random=True))
    def compare(rng: random.Random) -> None:
        check(name, [random_record(rng, kind).SerializeToString() for _ in range(100)])

    compare()


@pytest.mark.parametrize("name", MESSAGES)
def test_verdict_is_what_google_says_when_the_record_is_damaged(name):
    kind = find_message(SETS[name], record_message(SETS[name]))

    @many
    @given(st.randoms(use_true_random=True))
    def compare(rng: random.Random) -> None:
        good = [random_record(rng, kind).SerializeToString() for _ in range(20)]
        check(name, [damaged(rng, rng.choice(good), rng.choice(good)) for _ in range(100)])

    compare()
