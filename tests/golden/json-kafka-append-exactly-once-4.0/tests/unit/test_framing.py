"""A value with a schema registry's header, where bare ones were promised."""

import pyarrow as pa

from orders_pipeline.bare import refuse_framed
from orders_pipeline.decode import Decoded, make_decoder

SCHEMA = pa.schema([pa.field("a", pa.int32())])


def test_framed_value_is_rejected_with_a_reason_of_its_own() -> None:
    values = [b'{"a": 1}', b'\0\0\0\0\7{"a": 1}', b"\0\0\0\0\7", b"\0\0\0\0", b"{bad", None]
    decoded = refuse_framed(make_decoder(SCHEMA, "ignore"))(pa.array(values, pa.binary()))
    assert decoded.rows.to_pylist() == [{"a": 1}, None, None, None, None, None]
    expected = [None, "framed", "framed", "undecodable", "undecodable", None]
    assert decoded.reasons.to_pylist() == expected
    assert "wire format" in decoded.messages[1].as_py()


def test_values_are_handed_on_as_they_are_when_none_is_framed() -> None:
    values = pa.array([b'{"a": 1}', b'{"a": 2}'], pa.binary())
    handed: list[pa.BinaryArray] = []

    def decode(given: pa.BinaryArray) -> Decoded:
        handed.append(given)
        return make_decoder(SCHEMA, "ignore")(given)

    decoded = refuse_framed(decode)(values)
    assert handed == [values]
    assert handed[0] is values
    assert decoded.reasons.null_count == 2
