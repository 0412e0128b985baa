"""Which row a Kafka key stands for."""

from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import DataType, IntegerType, StringType, StructField, StructType

from orders_pipeline.errors import SettingsError
from orders_pipeline.key_frames import key_decoder
from orders_pipeline.keys import decode_keys
from orders_pipeline.settings import Settings


def schema(*kinds: pa.DataType) -> pa.Schema:
    return pa.schema([(f"k{number}", kind) for number, kind in enumerate(kinds)])


@pytest.mark.parametrize(
    ("kind", "key", "expected"),
    [
        (pa.int32(), b"42", 42),
        (pa.int64(), b"-9223372036854775808", -(2**63)),
        (pa.string(), b"42", "42"),
        (pa.string(), b'"42"', '"42"'),
        (pa.string(), b"", ""),
        (pa.string(), 'a"\\\u00e9'.encode(), 'a"\\\u00e9'),
        (pa.date32(), b"2026-01-31", date(2026, 1, 31)),
        (pa.decimal128(5, 2), b"1.5", Decimal("1.50")),
        (pa.bool_(), b"true", True),
    ],
)
def test_string_key_becomes_the_key_column_when_it_fits(kind, key, expected):
    decoded = decode_keys(pa.array([key]), schema(kind), "string")
    assert decoded.rows.to_pylist() == [{"k0": expected}]
    assert decoded.reasons.to_pylist() == [None]


@pytest.mark.parametrize(
    ("kind", "key", "reason"),
    [
        (pa.int32(), b"2147483648", "out_of_range"),
        (pa.int32(), b"", "wrong_type"),
        (pa.int32(), b" 42", "wrong_type"),
        (pa.int32(), b'"42"', "wrong_type"),
        (pa.int32(), b"42.0", "wrong_type"),
        (pa.int32(), b'1,"k0":2', "wrong_type"),
        (pa.int32(), b"null", "wrong_type"),
        (pa.string(), b"\xff", "undecodable"),
        (pa.date32(), b"2026-02-30", "wrong_type"),
        (pa.decimal128(5, 2), b"1.005", "out_of_range"),
        (pa.string(), None, "null_key"),
    ],
)
def test_string_key_is_rejected_when_it_does_not_fit(kind, key, reason):
    decoded = decode_keys(pa.array([key], pa.binary()), schema(kind), "string")
    assert decoded.rows.to_pylist() == [None]
    assert decoded.reasons.to_pylist() == [reason]
    assert decoded.messages.null_count == 0


def test_json_key_becomes_the_key_columns_when_it_holds_more():
    key = b'{"k1": "2026-01-31", "k0": 1, "other": 2}'
    decoded = decode_keys(pa.array([key]), schema(pa.int32(), pa.date32()), "json")
    assert decoded.rows.to_pylist() == [{"k0": 1, "k1": date(2026, 1, 31)}]


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        (None, "null_key"),
        (b"{}", "missing_field"),
        (b'{"k0": null}', "missing_field"),
        (b"42", "wrong_type"),
        (b"{", "undecodable"),
    ],
)
def test_json_key_is_rejected_when_a_key_column_is_not_in_it(key, reason):
    decoded = decode_keys(pa.array([key], pa.binary()), schema(pa.int32()), "json")
    assert decoded.rows.to_pylist() == [None]
    assert decoded.reasons.to_pylist() == [reason]


def test_string_key_is_refused_when_there_are_two_key_columns():
    with pytest.raises(SettingsError, match="use the key format json"):
        decode_keys(pa.array([b"1"]), schema(pa.int32(), pa.int32()), "string")


FRAMED = b'\0\0\0\0\1{"k0": 1}'


def frames(keys: list[bytes | None], kind: DataType, **table: Any) -> list[str | None]:
    """The reasons for these keys, of topics with these settings; no registry answers."""
    settings: dict[str, Any] = {
        "name": "tests",
        "topics": ["events"],
        "trigger": "availableNow",
        "table": {"key_columns": ["k0"], "key_format": "string", **table},
    }
    topic = Settings(**settings).topic_settings("events")
    decode = key_decoder(topic, StructType([StructField("k0", kind, nullable=False)]))()
    return decode(pa.array(keys, pa.binary())).reasons.to_pylist()


def test_string_key_with_a_schema_id_is_rejected_with_a_reason_of_its_own():
    keys = [FRAMED, b"\0\0\0\0\0", b"\0\0\0\0", b"any text", None]
    assert frames(keys, StringType()) == ["framed", "framed", None, None, "null_key"]
    assert frames([FRAMED], IntegerType()) == ["framed"]


def test_json_key_with_a_schema_id_is_rejected_with_a_reason_of_its_own():
    reasons = frames([FRAMED[5:], FRAMED, b"\0", None], IntegerType(), key_format="json")
    assert reasons == [None, "framed", "undecodable", "null_key"]
