"""The header that a schema registry's serializer puts before a value."""

import pyarrow as pa
import pytest

from orders_pipeline.decode import Decoded, make_decoder
from orders_pipeline.framing import make_framed_decoder

SCHEMA = pa.schema([pa.field("a", pa.int32())])
LARGEST = 2**32 - 1


def frame(schema_id: int, payload: bytes = b'{"a": 1}') -> bytes:
    return b"\0" + schema_id.to_bytes(4, "big") + payload


def decode(*values: bytes | None) -> Decoded:
    ids = [7, 256, LARGEST]
    return make_framed_decoder(make_decoder(SCHEMA, "ignore"), ids)(pa.array(values, pa.binary()))


def test_value_of_every_known_schema_is_decoded_without_its_header() -> None:
    decoded = decode(frame(7), None, frame(256, b'{"a": 2}'), frame(LARGEST, b'{"a": 3}'))
    assert decoded.rows.to_pylist() == [{"a": 1}, None, {"a": 2}, {"a": 3}]
    assert decoded.reasons.null_count == 4


@pytest.mark.parametrize(
    ("value", "reason", "message"),
    [
        (b'{"a": 1}', "not_framed", "zero byte"),
        (b"", "not_framed", "zero byte"),
        (b"\0\0\0\0", "not_framed", "zero byte"),
        (b"\1" + frame(7)[1:], "not_framed", "zero byte"),
        (frame(8), "unknown_schema", "8"),
        (frame(LARGEST - 1), "unknown_schema", str(LARGEST - 1)),
        (frame(7, b""), "undecodable", "zero bytes"),
        (frame(7, b"{bad"), "undecodable", "malformed"),
        (frame(7, b'{"a": "x"}'), "wrong_type", "int"),
    ],
)
def test_value_is_rejected_with_its_reason_and_its_neighbours_are_not(
    value: bytes, reason: str, message: str
) -> None:
    decoded = decode(frame(7), value, frame(7, b'{"a": 2}'))
    assert decoded.rows.to_pylist() == [{"a": 1}, None, {"a": 2}]
    assert decoded.reasons.to_pylist() == [None, reason, None]
    assert message in decoded.messages[1].as_py()


@pytest.mark.parametrize("values", [(), (None,), (None, None)])
def test_batch_without_a_value_has_no_row_and_no_reason(values: tuple[None, ...]) -> None:
    decoded = decode(*values)
    assert decoded.rows.null_count == decoded.reasons.null_count == len(values)


def test_slice_of_an_array_is_decoded_from_its_own_start() -> None:
    values = pa.array([frame(8), frame(7, b'{"a": 5}'), None, frame(7)], pa.binary())
    decoded = make_framed_decoder(make_decoder(SCHEMA, "ignore"), [7])(values[1:3])
    assert decoded.rows.to_pylist() == [{"a": 5}, None]
