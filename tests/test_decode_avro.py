"""Avro by Spark's own expressions, against fastavro: what it takes, what it refuses and why."""

import json
import os
import random
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from avro_pipelines import (
    Make,
    array,
    encoded,
    framed,
    is_record,
    logical,
    maker,
    mapping,
    record,
    rendered,
    session_of,
    varint,
)
from running import Repository


@pytest.fixture(scope="module")
def variants(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Repository]:
    return rendered(tmp_path_factory.mktemp("variants"), ["none_append", "confluent_append"])


@pytest.fixture(scope="module")
def spark(variants: dict[str, Repository]) -> Iterator[SparkSession]:
    yield from session_of(variants)


@pytest.fixture
def make(spark, variants, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    return maker(spark, variants, tmp_path, monkeypatch)


TWO_LONGS = record(("a", "long"), ("b", "long"))
ORDER = record(
    ("id", "long"),
    ("customer", ["null", "string"], {"default": None}),
    ("items", array(record(("sku", "string"), ("qty", "int"), name="Item"))),
)
GOOD = {"id": 7, "customer": "Ann", "items": [{"sku": "a", "qty": 1}, {"sku": "bb", "qty": 300}]}


# The columns


EVERY_TYPE = record(
    ("flag", "boolean"),
    ("i", "int"),
    ("l", "long"),
    ("f", "float"),
    ("d", "double"),
    ("raw", "bytes"),
    ("text", "string"),
    ("code", {"type": "fixed", "name": "Code", "size": 3}),
    ("color", {"type": "enum", "name": "Color", "symbols": ["RED", "GREEN"]}),
    ("price", logical("bytes", "decimal", precision=10, scale=2)),
    ("wide", logical("bytes", "decimal", precision=38, scale=10)),
    ("packed", logical("fixed", "decimal", name="Packed", size=8, precision=18, scale=4)),
    ("day", logical("int", "date")),
    ("t_ms", logical("int", "time-millis")),
    ("t_us", logical("long", "time-micros")),
    ("ts_ms", logical("long", "timestamp-millis")),
    ("ts_us", logical("long", "timestamp-micros")),
    ("ts_ns", logical("long", "timestamp-nanos")),
    ("lts_ms", logical("long", "local-timestamp-millis")),
    ("lts_us", logical("long", "local-timestamp-micros")),
    ("uuid", logical("string", "uuid")),
    ("span", logical("fixed", "duration", name="Span", size=12)),
    ("maybe", ["null", "int"]),
    ("maybe_last", ["int", "null"]),
    ("only", ["string"]),
    ("int_long", ["int", "long"]),
    ("float_double", ["float", "double"]),
    ("int_text", ["int", "string"]),
    ("maybe_int_text", ["null", "int", "string"]),
    ("scores", mapping(["null", "int"])),
    ("tags", array(["null", "string"])),
    ("colors", array("Color")),
    ("inner", record(("x", "int"), ("y", ["null", "Color"]), name="Inner", namespace="deep.er")),
    ("again", ["null", "deep.er.Inner"]),
    doc="all of them",
    namespace="",
)
EVERY_KIND = {
    "flag": "boolean",
    "i": "int",
    "l": "bigint",
    "f": "float",
    "d": "double",
    "raw": "binary",
    "text": "string",
    "code": "binary",
    "color": "string",
    "price": "decimal(10,2)",
    "wide": "decimal(38,10)",
    "packed": "decimal(18,4)",
    "day": "date",
    "t_ms": "int",
    "t_us": "bigint",
    "ts_ms": "timestamp",
    "ts_us": "timestamp",
    "ts_ns": "bigint",
    "lts_ms": "timestamp_ntz",
    "lts_us": "timestamp_ntz",
    "uuid": "string",
    "span": "binary",
    "maybe": "int",
    "maybe_last": "int",
    "only": "string",
    "int_long": "bigint",
    "float_double": "double",
    "int_text": "struct<member0:int,member1:string>",
    "maybe_int_text": "struct<member0:int,member1:string>",
    "scores": "map<string,int>",
    "tags": "array<string>",
    "colors": "array<string>",
    "inner": "struct<x:int,y:string>",
    "again": "struct<x:int,y:string>",
}
# Color in the null namespace cannot be named from within deep.er.
EVERY_TYPE["fields"][-2]["type"]["fields"][1]["type"] = ["null", "string"]
NULLABLE = {"maybe", "maybe_last", "maybe_int_text", "again"}
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def test_column_types_are_those_of_from_avro_and_go_into_a_delta_table(make, tmp_path):
    pipeline = make(EVERY_TYPE)
    fields = pipeline.fields()
    assert {field.name: field.dataType.simpleString() for field in fields} == EVERY_KIND
    assert {field.name for field in fields if field.nullable} == NULLABLE
    path = str(tmp_path / "table")
    value = encoded(EVERY_TYPE, every_value(1))
    decoded = pipeline.decoder().decode(pipeline.records([(b"k", value)]))
    pipeline.modules.rows.accepted_rows(decoded).write.format("delta").save(path)
    stored = pipeline.spark.read.format("delta").load(path)
    assert stored.count() == 1
    assert stored.schema[: len(fields)] == pipeline.modules.names.table_columns(fields)[:]


def every_value(seed: int) -> dict[str, Any]:
    chance = random.Random(seed)
    moment = EPOCH + timedelta(microseconds=chance.randrange(-(10**16), 10**17))
    millis = moment.replace(microsecond=moment.microsecond // 1000 * 1000)
    inner = {"x": chance.randrange(-9, 9), "y": chance.choice([None, "z"])}
    return {
        "flag": chance.random() < 0.5,
        "i": chance.randrange(-(2**31), 2**31),
        "l": chance.randrange(-(2**63), 2**63),
        "f": 0.5 * chance.randrange(-999, 999),
        "d": chance.uniform(-1e9, 1e9),
        "raw": chance.randbytes(chance.randrange(4)),
        "text": chance.choice(["", "plain", "h\u00e9 \u20ac \U0001f600", "\0"]),
        "code": chance.randbytes(3),
        "color": chance.choice(["RED", "GREEN"]),
        "price": Decimal(chance.randrange(-(10**10) + 1, 10**10)).scaleb(-2),
        "wide": Decimal(chance.randrange(-(10**28), 10**28)).scaleb(-10),
        "packed": Decimal(chance.randrange(-(10**18) + 1, 10**18)).scaleb(-4),
        "day": date(1, 1, 1) + timedelta(days=chance.randrange(3_652_059)),
        "t_ms": time(1, 2, 3, 4000),
        "t_us": time(23, 59, 59, 999_999),
        "ts_ms": millis,
        "ts_us": moment,
        "ts_ns": chance.randrange(2**63),
        "lts_ms": millis.replace(tzinfo=None),
        "lts_us": moment.replace(tzinfo=None),
        "uuid": UUID(int=chance.randrange(2**128)),
        "span": chance.randbytes(12),
        "maybe": chance.choice([None, 5]),
        "maybe_last": chance.choice([None, 5]),
        "only": "only",
        "int_long": chance.choice([1, 2**40]),
        "float_double": 0.25,
        "int_text": chance.choice([4, "four"]),
        "maybe_int_text": chance.choice([None, 4, "four"]),
        "scores": {"a": 1, "b": None},
        "tags": chance.choice([[], ["a", None, "b"]]),
        "colors": ["GREEN", "RED"],
        "inner": inner,
        "again": chance.choice([None, inner]),
    }


def every_expected(value: dict[str, Any]) -> dict[str, Any]:
    def member(found: Any) -> Any:
        if found is None:
            return None
        is_text = isinstance(found, str)
        return {"member0": None if is_text else found, "member1": found if is_text else None}

    return {
        **value,
        "t_ms": ((1 * 60 + 2) * 60 + 3) * 1000 + 4,
        "t_us": 24 * 3600 * 10**6 - 1,
        "uuid": str(value["uuid"]),
        "ts_ms": value["ts_ms"].replace(tzinfo=None),
        "ts_us": value["ts_us"].replace(tzinfo=None),
        "int_text": member(value["int_text"]),
        "maybe_int_text": member(value["maybe_int_text"]),
    }


def test_samples_made_from_a_schema_are_records_of_it(make):
    """What ``make demo`` and the tests of a repository send, whatever schema is put in."""
    in_bytes = ("fixed_uuid", logical("fixed", "uuid", name="FixedUuid", size=16))
    schema = {**EVERY_TYPE, "fields": [*EVERY_TYPE["fields"], *record(in_bytes)["fields"]]}
    pipeline = make(schema)
    sample = pipeline.repository.support("samples").sample
    chance = random.Random(0)
    values = [encoded(schema, sample(pipeline.fields(), chance, n)) for n in range(200)]
    assert pipeline.verdicts(*values) == [None] * 200


def test_values_are_those_that_fastavro_wrote(make):
    os.environ["TZ"] = "UTC"
    __import__("time").tzset()
    values = [every_value(seed) for seed in range(500)]
    rows = make(EVERY_TYPE).values(*(encoded(EVERY_TYPE, value) for value in values))
    for row, value in zip(rows, values, strict=True):
        assert row["rejected"] is None
        assert row["record"].asDict(recursive=True) == every_expected(value)


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ("{", "is not JSON"),
        ('"long"', "is not a record"),
        (
            '["null", {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}]',
            "is not a record",
        ),
        (
            '{"type": "record", "name": "R", "fields": [{"name": "a", "type": "nope"}]}',
            "is not an Avro schema",
        ),
        ('{"type": "record", "name": "R"}', "is not an Avro schema"),
        (record(("a", "int", {"default": "x"})), "is not an Avro schema.*default"),
        (record(("next", ["null", "Order"])), "holds itself"),
        (record(("a", "null")), r"\$\.a is never anything but null"),
        (record(("a", array("null"))), r"\$\.a\[...\] is never anything"),
        (record(("a", ["null"])), r"\$\.a has no fields, or no type but null"),
        (record(("a", record(name="E"))), r"\$\.a has no fields"),
        (record(), r"\$ has no fields"),
        (
            record(("a", logical("bytes", "decimal", precision=40, scale=2))),
            "Spark has no column.*40",
        ),
        (
            record(("a", logical("bytes", "decimal", precision=2, scale=4))),
            "precision 2 and the scale 4",
        ),
        (record(("a", logical("bytes", "decimal", precision="9"))), "precision '9' and the scale"),
        (
            record(("a", logical("fixed", "decimal", name="F", size=8, precision=19))),
            "fixed of 8 bytes has room for 18 digits",
        ),
    ],
)
def test_schema_is_refused_when_no_table_can_hold_it(make, schema, message):
    pipeline = make(schema)
    with pytest.raises(pipeline.modules.errors.SettingsError, match=f"(?s)avsc.*{message}"):
        pipeline.fields()


def test_schema_is_refused_when_there_is_none(make):
    pipeline = make(ORDER)
    pipeline.topic.schema_path.unlink()
    with pytest.raises(pipeline.modules.errors.SettingsError, match=r"has no schema.*is missing"):
        pipeline.fields()


CASES = record(
    ("id", "int"),
    ("ID", "int"),
    ("ID_", "int"),
    ("_offset", "int"),
    (
        "u",
        [
            "null",
            record(("a", "int"), ("A", "int"), name="A"),
            record(("a", "int"), ("A", "string"), name="B"),
        ],
    ),
    ("list", array(["null", "A"])),
    ("map", mapping(record(("x", "int"), ("X", "int"), name="C"))),
)
CASE_VALUE = {
    **{"id": 1, "ID": 2, "ID_": 3, "_offset": 4},
    "u": ("B", {"a": 1, "A": "one"}),
    "list": [{"a": 5, "A": 6}, None],
    "map": {"k": {"x": 7, "X": 8}},
}


@pytest.mark.parametrize("wire", ["none", "confluent"])
def test_fields_that_differ_in_case_alone_get_columns_of_their_own(make, wire):
    pipeline = make(CASES, wire)
    value = encoded(CASES, CASE_VALUE)
    if wire == "confluent":
        pipeline.register({3: CASES})
        value = framed(3, value)
    [row] = pipeline.values(value)
    assert row["record"].asDict(recursive=True) == {
        **{"id": 1, "ID_": 2, "ID__": 3, "_offset_": 4},
        "u": {"member0": None, "member1": {"a": 1, "A_": "one"}},
        "list": [{"a": 5, "A_": 6}, None],
        "map": {"k": {"x": 7, "X_": 8}},
    }


# Bytes that are not the record


def test_value_is_rejected_when_cut_off_anywhere_or_followed_by_anything(make):
    value = encoded(ORDER, GOOD)
    cut = [value[:length] for length in range(1, len(value))]
    ends = make(ORDER)
    end = ends.modules.avro._END_BYTES
    longer = [
        value + more for more in (b"\0", b"x", b"\xff" * 9, b"\x80" * 40, value, end[1:], end[:-1])
    ]
    verdicts = ends.verdicts(value, b"", *cut, *longer)
    assert verdicts[0] is None
    assert verdicts[1] == ("undecodable", "Empty: zero bytes")
    for verdict in verdicts[2 : 2 + len(cut)]:
        assert verdict in (
            ("undecodable", "Cut off, or not of this schema"),
            ("undecodable", "More bytes follow the record"),  # what is left is a shorter number
        )
    for verdict in verdicts[2 + len(cut) :]:
        assert verdict[0] == "undecodable"
    assert verdicts[2 + len(cut)] == ("undecodable", "More bytes follow the record")


@pytest.mark.parametrize(
    ("schema", "some"),
    [
        (record(("a", ["null", "int"])), [{"a": None}, {"a": 1}, {"a": 2**31 - 1}]),
        (TWO_LONGS, [{"a": a, "b": b} for a in (0, -1, 2**63 - 1) for b in (0, 5, -(2**63))]),
        (record(("b", "bytes")), [{"b": b""}, {"b": b"\xff" * 30}]),
    ],
    ids=["union", "longs", "bytes"],
)
def test_no_byte_that_is_cut_off_or_added_goes_unseen(make, schema, some):
    good = [encoded(schema, value) for value in some]
    known = set(good)
    others = {value[:length] for value in good for length in range(len(value))}
    others |= {value + bytes([byte]) for value in good for byte in range(256)}
    # fastavro says which of those are records after all: a longer number, say
    bad = sorted(value for value in others - known if not is_record(schema, value))
    reasons = make(schema).reasons(*good, *bad)
    assert reasons[: len(good)] == [None] * len(good)
    assert set(reasons[len(good) :]) <= {"undecodable", "framed"}


def test_junk_is_a_reason_and_never_an_error(make):
    chance = random.Random(1)
    junk = [chance.randbytes(chance.randrange(60)) for _ in range(3000)]
    huge = [
        varint(1) + b"\x02" + varint(2**31 - 20) + b"abc",  # a string of two gibibytes
        varint(1) + b"\x00" + varint(2**31 - 20) + b"abc",  # as many items
        varint(1) + b"\x02" + varint(-5),
        varint(1) + b"\x02" + varint(2**60),
        varint(1) + b"\x04",  # no such branch
        b"\x80" * 11,
    ]
    reasons = make(ORDER).reasons(encoded(ORDER, GOOD), *huge, *junk, encoded(ORDER, GOOD))
    assert reasons[0] is None
    assert reasons[-1] is None
    assert reasons[1:7] == ["undecodable"] * 6
    good = [value for value, reason in zip(junk, reasons[7:-1], strict=True) if reason is None]
    assert all(is_record(ORDER, value) for value in good)


def test_value_is_rejected_when_a_string_is_not_utf8_or_a_moment_is_in_no_calendar(make):
    moments = [logical("long", f"{local}timestamp-micros") for local in ("", "local-")]
    schema = record(
        ("text", "string"),
        ("day", logical("int", "date")),
        ("at", moments[0]),
        ("local", moments[1]),
        ("texts", array(array(["null", "string"]))),
        (
            "times",
            mapping(array(record(("at", moments[0]), name="T"))),
        ),
        ("maps", array(mapping("string"))),
    )
    good = {
        "text": "a",
        "day": 0,
        "at": 0,
        "local": 0,
        "texts": [["a", None]],
        "times": {"k": [{"at": 0}]},
        "maps": [{"k": "v"}],
    }
    plain = json.loads(json.dumps(schema).replace('"logicalType"', '"was"'))
    as_bytes = json.loads(json.dumps(plain).replace('"string"', '"bytes"'))

    def value(**changes: Any) -> bytes:
        return encoded(plain, {**good, **changes})

    def spoiled(**changes: Any) -> bytes:
        raw = {**good, "text": b"a", "texts": [[b"a", None]], "maps": [{"k": b"v"}]}
        return encoded(as_bytes, {**raw, **changes})

    far = 253_402_300_800_000_000
    times = [{"times": {"k": [{"at": 0}, {"at": at}]}} for at in (far - 1, far)]
    verdicts = make(schema).verdicts(
        value(),
        value(text="h\u00e9\u20ac\U0001f600", at=far - 1, local=far - 1, day=2_932_896, **times[0]),
        spoiled(text=b"\xff"),
        spoiled(text=b"\xc3"),
        spoiled(text=b"\xed\xa0\x80"),  # half of a surrogate pair
        spoiled(texts=[[], [b"ok", None, b"\xc3"], [b"\xa9"]]),
        spoiled(maps=[{"k": b"\xff"}]),
        encoded(plain, good).replace(b"k", b"\xff"),
        value(day=2_932_897),
        value(at=far),
        value(at=-62_135_596_800_000_001),
        value(local=far),
        value(**times[1]),
    )
    not_utf8 = ("undecodable", "A string is not UTF-8")
    outside = ("out_of_range", "A date or timestamp is outside the years 1 to 9999")
    assert verdicts == [None, None, *[not_utf8] * 6, *[outside] * 5]


def test_decimal_is_rejected_and_never_another_number_when_its_column_has_too_few_digits(make):
    kinds = {
        "narrow": logical("bytes", "decimal", precision=4, scale=2),
        "long": logical("bytes", "decimal", precision=18, scale=0),
        "wide": logical("bytes", "decimal", precision=30, scale=10),
        "fixed": logical("fixed", "decimal", name="Sixteen", size=16, precision=5, scale=5),
    }
    schema = record(
        *kinds.items(),
        ("list", array(mapping(record(("d", ["null", kinds["narrow"]]), name="In")))),
    )

    def value(**units: int) -> bytes:
        written = b""
        for name in kinds:
            raw = units.get(name, 0).to_bytes(16, "big", signed=True)
            written += raw if name == "fixed" else varint(16) + raw
        inner = units.get("list", 0).to_bytes(12, "big", signed=True)
        return written + b"\x02\x02\x02k\x02" + varint(12) + inner + b"\0\0"

    digits = {"narrow": 4, "long": 18, "wide": 30, "fixed": 5, "list": 4}
    some = [
        *({name: sign * (10**n - 1)} for name, n in digits.items() for sign in (1, -1)),
        *({name: sign * 10**n} for name, n in digits.items() for sign in (1, -1)),
        # What Spark would take for 125: the last 64 bits alone.
        *({name: sign * 2**64 + 125} for name in digits if name != "wide" for sign in (1, -1)),
    ]
    rows = make(schema).values(*(value(**units) for units in some))
    for row, units in zip(rows[:10], some[:10], strict=True):
        [(name, unscaled)] = units.items()
        found = row["record"]["list"][0]["k"]["d"] if name == "list" else row["record"][name]
        scale = {"long": 0, "wide": 10, "fixed": 5}.get(name, 2)
        assert found == Decimal(f"{unscaled}E-{scale}")
    rejects = {row["rejected"] and row["rejected"]["reason"] for row in rows[10:]}
    assert rejects == {"out_of_range"}
    assert (
        make(schema).reasons(value(narrow=10**38), value(narrow=-(2**127))) == ["undecodable"] * 2
    )


# Framed and bare


def test_framed_value_is_named_so_when_bare_was_promised(make):
    pipeline = make(TWO_LONGS)
    bare = [{"a": a, "b": b} for a in (0, 1, -1, 2**62) for b in (0, 77, 2**40)]
    frames = [
        framed(number, encoded(TWO_LONGS, value)) for number in (1, 300, 2**31) for value in bare
    ]
    assert set(pipeline.reasons(*frames)) == {"framed"}
    assert set(pipeline.reasons(*(encoded(TWO_LONGS, value) for value in bare))) == {None}
    assert pipeline.reasons(b"\0\0\0", b"\0" * 5) == ["undecodable", "framed"]


def test_bare_value_is_named_so_when_a_frame_was_promised(make):
    pipeline = make(TWO_LONGS, "confluent")
    pipeline.register({1: TWO_LONGS})
    bare = [encoded(TWO_LONGS, {"a": a, "b": b}) for a in (1, -1, 2**62) for b in (0, 2**40)]
    assert set(pipeline.reasons(*bare, b"", b"\0\0\0\0", b"{}")) == {"not_framed"}
    [verdict] = pipeline.verdicts(encoded(TWO_LONGS, {"a": 0, "b": 2**40}))
    assert verdict == ("unknown_schema", "Schema id 2155905152 is not one of this topic's")
    assert pipeline.reasons(
        framed(1, b"\2\2"), framed(1, b""), framed(1, b"\2"), framed(1, b"\2\2\2")
    ) == [
        None,
        *["undecodable"] * 3,
    ]


# Versions


V1 = record(("id", "int"), ("name", "string"), ("old", "string"), namespace="shop")
V2 = record(
    ("name", "string"),
    ("id", "long"),
    ("color", {"type": "enum", "name": "Color", "symbols": ["RED", "BLUE"]}),
    namespace="shop",
)
V3 = record(
    ("id", "long"),
    ("title", "string", {"aliases": ["name"]}),
    (
        "color",
        {"type": "enum", "name": "Color", "symbols": ["BLUE", "UNKNOWN"], "default": "UNKNOWN"},
        {"default": "BLUE"},
    ),
    ("weight", ["null", "double"], {"default": None}),
    ("size", "int", {"default": 42}),
    namespace="shop",
)
TITLE = json.loads(json.dumps(V3))
TITLE["fields"][1] = {"name": "title", "type": "string"}


def test_all_versions_in_one_batch_are_read_in_the_schema_of_the_repository(make):
    pipeline = make(V3, "confluent")
    incompatible = record(("id", "string"), ("name", "string"), namespace="shop")
    pipeline.register({1: V1, 2: V2, 30_000: TITLE, 4: incompatible, 5: '{"type": "nope"}'})
    rows = pipeline.values(
        framed(1, encoded(V1, {"id": 1, "name": "one", "old": "gone"})),
        framed(2, encoded(V2, {"id": 2, "name": "two", "color": "RED"})),
        framed(
            30_000,
            encoded(TITLE, {"id": 3, "title": "three", "color": "BLUE", "weight": 1.5, "size": 9}),
        ),
        framed(4, encoded(incompatible, {"id": "4", "name": "four"})),
        framed(5, b""),
        framed(6, b"\2"),
        None,
    )
    assert [tuple(row["record"]) if row["record"] else None for row in rows] == [
        (1, "one", "BLUE", None, 42),
        (2, "two", "UNKNOWN", None, 42),
        (3, "three", "BLUE", 1.5, 9),
        *[None] * 4,
    ]
    rejects = [row["rejected"] for row in rows[3:6]]
    assert [reject["reason"] for reject in rejects] == [
        "incompatible_schema",
        "incompatible_schema",
        "unknown_schema",
    ]
    assert "TYPE_MISMATCH at /fields/0/type: reader type: LONG" in rejects[0]["message"]
    assert "id 5" in rejects[1]["message"]
    assert rows[-1]["deleted"]


def test_schema_is_incompatible_when_its_numbers_count_something_else(make):
    reader = record(
        ("at", logical("long", "timestamp-micros")),
        ("price", ["null", logical("bytes", "decimal", precision=10, scale=2)]),
        ("t", logical("long", "time-micros")),
    )
    others = {
        1: reader,
        2: record(("at", "long"), ("price", reader["fields"][1]["type"]), ("t", "long")),
        3: record(
            ("at", logical("long", "timestamp-millis")),
            ("price", reader["fields"][1]["type"]),
            ("t", "long"),
        ),
        4: record(
            ("at", "long"),
            ("price", logical("bytes", "decimal", precision=10, scale=3)),
            ("t", "long"),
        ),
        5: record(("at", "long"), ("price", "bytes"), ("t", logical("int", "time-millis"))),
    }
    pipeline = make(reader, "confluent")
    pipeline.register(others)
    payload = varint(1) + b"\0" + varint(1)
    verdicts = pipeline.verdicts(*(framed(number, payload) for number in others))
    assert verdicts[:2] == [None, None]
    assert [verdict[0] for verdict in verdicts[2:]] == ["incompatible_schema"] * 3
    assert "at is written as timestamp-millis and read as timestamp-micros" in verdicts[2][1]
    assert (
        "price is written as decimal with scale 3 and read as decimal with scale 2"
        in verdicts[3][1]
    )
    assert "t is written as time-millis and read as time-micros" in verdicts[4][1]


def test_writers_schema_may_hold_itself_and_refer_to_others(make):
    reader = record(
        ("id", "long"),
        ("at", record(("zip", "string"), name="Address", namespace="geo")),
        name="Node",
    )
    writer = record(("id", "long"), ("next", ["null", "Node"]), ("at", "geo.Address"), name="Node")
    pipeline = make(reader, "confluent")
    pipeline.register(
        {1: writer}, references=[record(("zip", "string"), name="Address", namespace="geo")]
    )
    inner = {"id": 2, "next": None, "at": {"zip": "b"}}
    whole = json.loads(json.dumps(writer))
    whole["fields"][2]["type"] = reader["fields"][1]["type"]
    # The first mention in the whole text is inside, so Address is defined where fastavro wants it.
    value = encoded(whole, {"id": 1, "next": inner, "at": {"zip": "a"}})
    [row] = pipeline.values(framed(1, value))
    assert row["record"].asDict(recursive=True) == {"id": 1, "at": {"zip": "a"}}


def test_fifty_versions_are_read_and_none_is_decoded_twice(make):
    base = [("id", "long"), ("name", "string")]
    writers = {100 + n: record(*base, (f"extra{n}", "int")) for n in range(50)}
    pipeline = make(record(*base), "confluent")
    pipeline.register(writers)
    values = [
        framed(number, encoded(schema, {"id": number, "name": "x", f"extra{number - 100}": 1}))
        for number, schema in writers.items()
    ]
    rows = pipeline.values(*values)
    assert [row["record"]["id"] for row in rows] == list(writers)


@pytest.mark.parametrize(("wire", "count"), [("none", 1), ("confluent", 3)])
def test_record_is_decoded_once_in_the_pipelines_plan(make, wire, count):
    pipeline = make(ORDER, wire)
    if wire == "confluent":
        pipeline.register({n: {**ORDER, "doc": str(n)} for n in range(count)})
    counting = pipeline.repository.module("counting")
    counted, _ = counting.observe(pipeline.records([(b"k", b"v")]), read=counting.every())
    decoder = pipeline.decoder()
    decoded, _ = counting.observe(decoder.decode(counted), **counting.outcomes())
    rows = pipeline.modules.rows.accepted_rows(decoded)
    for frame in (
        rows,
        rows.where(F.col("id") > 3).select(F.col("id") + 1, "customer"),
        rows.repartition(2).select("id", "items"),
        rows.groupBy("id").agg(F.max("customer")),
        decoder.rejected(pipeline.records([(b"k", b"v")])),
    ):
        plan = frame._jdf.queryExecution().executedPlan().toString()
        assert plan.count("from_avro(") == count


def test_rejected_gives_the_rejected_rows(make):
    pipeline = make(TWO_LONGS)
    records = pipeline.records([(b"k", b"\2\2"), (b"k", b"\2"), (None, None), (b"k", None)])
    rejected = pipeline.decoder().rejected(records).collect()
    assert Counter(row["rejected"]["reason"] for row in rejected) == {
        "undecodable": 1,
        "null_key": 1,
    }


# Generated records


def sample(schema: Any) -> st.SearchStrategy[Any]:
    if isinstance(schema, list):
        return st.one_of(*map(sample, schema))
    kind = schema if isinstance(schema, str) else schema["type"]
    if kind == "record":
        return st.fixed_dictionaries({f["name"]: sample(f["type"]) for f in schema["fields"]})
    if kind == "array":
        return st.lists(sample(schema["items"]), max_size=4)
    if kind == "map":
        return st.dictionaries(TEXT, sample(schema["values"]), max_size=4)
    if kind == "enum":
        return st.sampled_from(schema["symbols"])
    if kind == "fixed":
        return st.binary(min_size=schema["size"], max_size=schema["size"])
    return PLAIN[kind]


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
PLAIN = {
    "null": st.none(),
    "boolean": st.booleans(),
    "int": st.integers(-(2**31), 2**31 - 1),
    "long": st.integers(-(2**63), 2**63 - 1),
    "float": st.floats(width=32, allow_nan=False),
    "double": st.floats(allow_nan=False),
    "bytes": st.binary(max_size=12),
    "string": TEXT,
}
GENERATED = [
    record(
        *((name, name) for name in ("boolean", "int", "long", "float", "double", "bytes", "string"))
    ),
    record(
        *((name, ["null", name]) for name in ("boolean", "int", "long", "float", "bytes", "string"))
    ),
    record(
        (
            "deep",
            array(
                mapping(
                    array(
                        [
                            "null",
                            record(
                                ("s", ["string", "null"]),
                                ("f", {"type": "fixed", "name": "F", "size": 5}),
                                name="In",
                            ),
                        ]
                    )
                )
            ),
        ),
        ("kind", {"type": "enum", "name": "E", "symbols": ["A", "B", "C"]}),
    ),
    record(
        (
            "a",
            ["null", record(("b", ["null", record(("c", ["null", "long"]), name="C")]), name="B")],
        ),
        ("end", "bytes"),
    ),
]


@cache
def generated(number: int) -> list[Any]:
    """Values of the schema of that number, the same each time."""
    found: list[Any] = []

    @settings(
        max_examples=500,
        database=None,
        phases=[Phase.generate],
        derandomize=True,
        suppress_health_check=list(HealthCheck),
        deadline=None,
    )
    @given(sample(GENERATED[number]))
    def collect(value: Any) -> None:
        found.append(value)

    collect()
    return found


@pytest.mark.parametrize("number", range(len(GENERATED)))
@pytest.mark.parametrize("wire", ["none", "confluent"])
def test_generated_records_come_out_as_they_went_in(make, number, wire):
    schema, found = GENERATED[number], generated(number)
    pipeline = make(schema, wire)
    values = [encoded(schema, value) for value in found]
    if wire == "confluent":
        pipeline.register({9: schema})
        values = [framed(9, value) for value in values]
    assert len(values) > 200
    for row, value in zip(pipeline.values(*values), found, strict=True):
        assert row["rejected"] is None
        assert row["record"].asDict(recursive=True) == value


# Fields that are not read


@pytest.mark.parametrize(
    ("reader", "writer", "expected"),
    [
        (V3, V1, ["old"]),
        (V3, V2, []),
        (record(("a", "int")), record(("a", "int"), ("b", record(("c", "int"), name="B"))), ["b"]),
        (
            record(("at", ["null", record(("zip", "string"), name="Address")])),
            record(("at", [record(("zip", "string"), ("city", "string"), name="Address"), "null"])),
            ["at.city"],
        ),
        (
            record(
                ("x", array(record(("a", "int"), name="I"))),
                ("y", mapping("I")),
            ),
            record(
                ("x", array(record(("a", "int"), ("b", "int"), name="I"))),
                ("y", mapping("I")),
            ),
            ["x.b", "y.b"],
        ),
        (
            record(
                (
                    "new",
                    record(("b", "int", {"aliases": ["was"]}), name="N", aliases=["O"]),
                    {"aliases": ["old"]},
                )
            ),
            record(("old", record(("was", "int"), ("gone", "int"), name="O"))),
            ["old.gone"],
        ),
        (
            record(("u", [record(("a", "int"), name="A"), record(("b", "int"), name="B")])),
            record(("u", ["null", record(("b", "int"), ("c", "int"), name="B")])),
            ["u.c"],
        ),
        (record(("id", "int")), record(("id", "int"), ("next", ["null", "Order"])), ["next"]),
        (
            record(("a", record(("x", "int"), name="T", namespace="p")), ("b", "p.T")),
            record(("a", record(("x", "int"), ("y", "int"), name="p.T")), ("b", "p.T")),
            ["a.y", "b.y"],
        ),
    ],
)
def test_unread_fields_are_those_that_the_reader_has_not(variants, reader, writer, expected):
    versions = variants["confluent_append"].module("avro_versions")
    assert versions.unread_fields(json.dumps(reader), json.dumps(writer)) == expected
