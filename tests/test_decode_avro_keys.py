"""Which row a delete names: keys as text, as JSON and as Avro; the bytes are fastavro's."""

from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from avro_pipelines import (
    Make,
    array,
    encoded,
    framed,
    logical,
    maker,
    record,
    rendered,
    session_of,
)
from running import Repository


@pytest.fixture(scope="module")
def variants(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Repository]:
    return rendered(
        tmp_path_factory.mktemp("variants"), ["none_append", "none_upsert", "confluent_upsert"]
    )


@pytest.fixture(scope="module")
def spark(variants: dict[str, Repository]) -> Iterator[SparkSession]:
    yield from session_of(variants)


@pytest.fixture
def make(spark, variants, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    return maker(spark, variants, tmp_path, monkeypatch)


# Tombstones


def test_tombstone_makes_no_row_when_records_are_appended(make):
    rows = make(record(("a", "long"), ("b", "long"))).decode(
        [(b"k", None), (None, None), (None, b"\2\2")]
    )
    assert [row["record"] and tuple(row["record"]) for row in rows] == [None, None, (1, 1)]
    assert [row["rejected"] and row["rejected"]["reason"] for row in rows] == [
        None,
        "null_key",
        None,
    ]


KEYED = record(
    ("k0", "int"),
    ("note", ["null", "string"]),
    ("k1", logical("int", "date")),
    ("K2", "string"),
)


def keyed(make, kind: Any, keys: list[bytes | None], key_format: str = "string") -> Any:
    schema = record(("k0", kind), ("note", ["null", "string"]))
    pipeline = make(schema, "none", "upsert", key_columns=["k0"], key_format=key_format)
    return pipeline.decode([(key, None) for key in keys])


INT, LONG, TEXT_, DATE = "int", "long", "string", logical("int", "date")
DEC = logical("bytes", "decimal", precision=5, scale=2)


@pytest.mark.parametrize(
    ("kind", "keys"),
    [
        (INT, [(b"42", 42), (b"-0", 0)]),
        (LONG, [(b"-9223372036854775808", -(2**63))]),
        (
            TEXT_,
            [
                (b"42", "42"),
                (b'"42"', '"42"'),
                (b"", ""),
                ('a"\\\u00e9\n'.encode(), 'a"\\\u00e9\n'),
            ],
        ),
        (DATE, [(b"2026-01-31", date(2026, 1, 31))]),
        (
            DEC,
            [
                (b"1.5", Decimal("1.50")),
                (b"1.500", Decimal("1.50")),
                (b"-999.99", Decimal("-999.99")),
            ],
        ),
        ("boolean", [(b"true", True), (b"false", False)]),
        ("double", [(b"1.5", 1.5), (b"1e3", 1000.0)]),
        ("bytes", [(b"AAE=", b"\0\1"), (b"", b"")]),
        (
            logical("long", "timestamp-micros"),
            [(b"2026-01-31T12:00:00.5+02:00", datetime(2026, 1, 31, 10, 0, 0, 500_000))],
        ),
        (
            logical("long", "local-timestamp-micros"),
            [(b"2026-01-31 12:00:00", datetime(2026, 1, 31, 12))],
        ),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, [(b"A", "A")]),
    ],
)
def test_string_key_becomes_the_key_column_when_it_fits(make, kind, keys):
    rows = keyed(make, kind, [key for key, _ in keys])
    assert [row["rejected"] for row in rows] == [None] * len(keys)
    assert [tuple(row["record"]) for row in rows] == [(value, None) for _, value in keys]


@pytest.mark.parametrize(
    ("kind", "keys"),
    [
        (
            INT,
            [
                (b"2147483648", "out_of_range"),
                *(
                    (key, "wrong_type")
                    for key in (
                        b"",
                        b" 42",
                        b'"42"',
                        b"42.0",
                        b"42\n",
                        b"+4",
                        b"04",
                        b'1,"k0":2',
                        b"null",
                    )
                ),
                (b"\xff", "undecodable"),
            ],
        ),
        (LONG, [(b"9223372036854775808", "out_of_range")]),
        (TEXT_, [(b"\xff", "undecodable"), (None, "null_key")]),
        (
            DATE,
            [
                (b"2026-02-30", "wrong_type"),
                (b"2026-1-1", "wrong_type"),
                (b"0000-01-01", "wrong_type"),
            ],
        ),
        (DEC, [(b"1.005", "out_of_range"), (b"1000", "out_of_range"), (b"1,5", "wrong_type")]),
        ("boolean", [(b"True", "wrong_type"), (b"1", "wrong_type")]),
        ("double", [(b"1e999", "out_of_range"), (b"NaN", "wrong_type")]),
        ("bytes", [(b"AAE", "wrong_type")]),
        (
            logical("long", "timestamp-micros"),
            [(b"2026-01-31T12:00:00", "wrong_type"), (b"2026-01-31T25:00:00Z", "wrong_type")],
        ),
        (logical("long", "local-timestamp-micros"), [(b"2026-01-31T12:00:00Z", "wrong_type")]),
    ],
)
def test_string_key_is_rejected_when_it_does_not_fit(make, kind, keys):
    rows = keyed(make, kind, [key for key, _ in keys])
    assert [row["record"] for row in rows] == [None] * len(keys)
    assert [row["rejected"]["reason"] for row in rows] == [reason for _, reason in keys]


def test_json_key_becomes_the_key_columns_when_it_holds_more(make):
    pipeline = make(KEYED, "none", "upsert", key_columns=["K2", "k0", "k1"], key_format="json")
    keys = [
        b'{"k1": "2026-01-31", "k0": 1, "other": 2, "K2": "h\\u00e9"}',
        b' {"k1":"2026-01-31","k0":-1,"K2":"","k2":[1]} ',
    ]
    rows = pipeline.decode([(key, None) for key in keys])
    assert [row["rejected"] for row in rows] == [None, None]
    assert [tuple(row["record"]) for row in rows] == [
        (1, None, date(2026, 1, 31), "h\u00e9"),
        (-1, None, date(2026, 1, 31), ""),
    ]


@pytest.mark.parametrize(
    ("kind", "keys"),
    [
        (
            INT,
            [
                (None, "null_key"),
                (b"{}", "missing_field"),
                (b'{"k0": null}', "missing_field"),
                (b"42", "wrong_type"),
                (b"[1]", "wrong_type"),
                (b"null", "wrong_type"),
                (b'{"k0": "42"}', "wrong_type"),
                (b'{"k0": 42.0}', "wrong_type"),
                (b'{"k0": 1e1}', "wrong_type"),
                (b'{"k0": true}', "wrong_type"),
                (b'{"k0": {}}', "wrong_type"),
                (b'{"k0": 2147483648}', "out_of_range"),
                (b'{"k0": 99999999999999999999}', "out_of_range"),
                (b"{", "undecodable"),
                (b"", "undecodable"),
                (b'{"k0": 1}{"k0": 2}', "undecodable"),
                (b'{"k0": 1} x', "undecodable"),
                (b'{"k0": 1},{"k0": 2}', "undecodable"),
                (b'{"k0": 1}] {}', "undecodable"),
                (b'{"k0": 1, "o": "\xff"}', "undecodable"),
                (b'{"K0": 1}', "missing_field"),
            ],
        ),
        (
            TEXT_,
            [
                (b'{"k0": 42}', "wrong_type"),
                (b'{"k0": true}', "wrong_type"),
                (b'{"k0": {"a": 1}}', "wrong_type"),
            ],
        ),
        ("boolean", [(b'{"k0": "true"}', "wrong_type"), (b'{"k0": 1}', "wrong_type")]),
        (DEC, [(b'{"k0": 1.005}', "out_of_range"), (b'{"k0": true}', "wrong_type")]),
    ],
)
def test_json_key_is_rejected_when_a_key_column_is_not_in_it(make, kind, keys):
    rows = keyed(make, kind, [key for key, _ in keys], "json")
    assert [row["record"] for row in rows] == [None] * len(keys)
    assert [row["rejected"]["reason"] for row in rows] == [reason for _, reason in keys]


@pytest.mark.parametrize(
    ("kind", "key", "expected"),
    [
        (DEC, b'{"k0": 1.5}', Decimal("1.50")),
        (DEC, b'{"k0": "1.5"}', Decimal("1.50")),
        (DEC, b'{"k0": 7}', Decimal("7.00")),
        ("double", b'{"k0": 7}', 7.0),
        ("double", b'{"k0": 1e3}', 1000.0),
        (LONG, b'{"k0": 9223372036854775807}', 2**63 - 1),
        ("boolean", b'{"k0": false}', False),
    ],
)
def test_json_key_holds_numbers_and_booleans(make, kind, key, expected):
    [row] = keyed(make, kind, [key], "json")
    assert row["rejected"] is None
    assert row["record"]["k0"] == expected


@pytest.mark.parametrize("wire", ["none", "confluent"])
def test_avro_key_gives_the_key_columns(make, wire):
    pipeline = make(KEYED, wire, "upsert", key_columns=["k1", "k0"], key_format="avro")
    key_schema = record(
        ("k0", ["null", "int"]), ("other", "string"), ("k1", logical("int", "date")), name="Key"
    )
    pipeline.write_key_schema(key_schema)
    keys = [
        encoded(key_schema, {"k0": k0, "other": "x", "k1": date(2026, 1, 31)}) for k0 in (5, None)
    ]
    keys += [keys[0][:-1], keys[0] + b"x", b""]
    value = encoded(KEYED, {"k0": 1, "note": None, "k1": date(2026, 1, 1), "K2": "z"})
    if wire == "confluent":
        pipeline.register({1: KEYED})
        pipeline.register({2: key_schema}, "key")
        keys, value = [framed(2, key) for key in keys], framed(1, value)
    rows = pipeline.decode([*((key, None) for key in keys), (None, None), (b"not avro", value)])
    assert [row["record"] and tuple(row["record"]) for row in rows] == [
        (5, None, date(2026, 1, 31), None),
        *[None] * 5,
        (1, None, date(2026, 1, 1), "z"),
    ]
    assert [row["rejected"] and row["rejected"]["reason"] for row in rows] == [
        *[None, "missing_field", "undecodable", "undecodable", "undecodable", "null_key", None],
    ]


@pytest.mark.parametrize("key_format", ["json", "avro"])
def test_key_is_framed_or_bare_as_the_settings_say_where_there_is_a_registry(make, key_format):
    schema, key_schema = record(("k0", "int")), record(("k0", "int"), name="Key")
    good = b'{"k0": 1}' if key_format == "json" else encoded(key_schema, {"k0": 1})
    keys = [framed(2, good), good, framed(3, good), framed(2, good + b"x"), framed(2, b""), None]
    outcomes = {
        True: [(1,), "not_framed", "unknown_schema", "undecodable", "undecodable", "null_key"],
        False: ["framed", (1,), *["framed"] * 3, "null_key"],
    }
    for is_framed, expected in outcomes.items():
        table = {"key_columns": ["k0"], "key_format": key_format, "key_framed": is_framed}
        pipeline = make(schema, "confluent", "upsert", **table)
        pipeline.write_key_schema(key_schema)
        pipeline.register({1: schema})
        if is_framed:
            pipeline.register({2: key_schema}, "key", kind=key_format.upper())
        rows = pipeline.decode([(key, None) for key in keys])
        assert [
            row["rejected"]["reason"] if row["rejected"] else tuple(row["record"]) for row in rows
        ] == expected


def test_key_that_is_framed_has_a_reason_of_its_own_where_there_is_no_registry(make):
    rows = keyed(make, INT, [framed(2, b'{"k0": 1}'), b"\0", b'{"k0": 1}'], "json")
    assert [row["rejected"] and row["rejected"]["reason"] for row in rows] == [
        "framed",
        "undecodable",
        None,
    ]


@pytest.mark.parametrize("registry", ["none", "confluent"])
def test_text_that_begins_as_a_frame_has_a_reason_of_its_own(make, registry):
    schema = record(("k0", "string"), ("note", ["null", "string"]))
    pipeline = make(schema, registry, "upsert", key_columns=["k0"], key_format="string")
    if registry == "confluent":
        pipeline.register({1: schema})
    rows = pipeline.decode([(key, None) for key in (framed(2, b"a"), b"\0\0\0\0", b"a")])
    assert [row["rejected"] and row["rejected"]["reason"] for row in rows] == ["framed", None, None]


def test_avro_key_may_be_no_record(make):
    pipeline = make(
        record(("id", "string"), ("n", "int")),
        "none",
        "upsert",
        key_columns=["id"],
        key_format="avro",
    )
    pipeline.write_key_schema('"string"')
    rows = pipeline.decode([(b"\x04ab", None), (b"ab", None), (b"\x04\xff\xfe", None)])
    assert tuple(rows[0]["record"]) == ("ab", None)
    assert [row["rejected"] and row["rejected"]["reason"] for row in rows] == [
        None,
        "undecodable",
        "undecodable",
    ]


@pytest.mark.parametrize(
    ("table", "key", "message"),
    [
        ({"key_columns": ["k0", "k1"]}, None, "use the key format json"),
        ({"key_columns": ["k0"], "key_format": "avro"}, None, r"key.avsc is missing"),
        ({"key_columns": ["k0"], "key_format": "avro"}, '"long"', "does not give the key column"),
        (
            {"key_columns": ["k0", "k1"], "key_format": "avro"},
            '"int"',
            "does not give the key column",
        ),
        (
            {"key_columns": ["k0"], "key_format": "avro"},
            '{"type":"record","name":"K","fields":[{"name":"k","type":"int"}]}',
            "and is missing",
        ),
    ],
)
def test_keys_are_refused_at_the_start_when_they_cannot_be_had(make, table, key, message):
    pipeline = make(KEYED, "none", "upsert", **table)
    if key:
        pipeline.write_key_schema(key)
    with pytest.raises(pipeline.modules.errors.SettingsError, match=message):
        pipeline.decoder()


def test_key_column_is_refused_when_it_is_nested(make):
    schema = record(("k0", array("int")))
    pipeline = make(schema, "none", "upsert", key_columns=["k0"])
    with pytest.raises(pipeline.modules.errors.SettingsError, match="use the key format avro"):
        pipeline.decoder()
