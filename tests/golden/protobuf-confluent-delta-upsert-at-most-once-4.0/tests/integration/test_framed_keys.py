"""Deletes by keys that begin with the id of their schema, as values do, and by keys that do not."""

from typing import Any

import pytest

from orders_pipeline import doctor
from orders_pipeline.errors import BreakerTripped, RefusedError

from scripts.compile_protos import compile_proto
from tests.support.pipeline import MakePipeline, Pipeline, event, require_nothing
from tests.support.records import encode_key

KEY_FORMATS = ["json", "protobuf"]
KEY = 'syntax = "proto3"; message Key { string id = 1; }'


@pytest.mark.parametrize("key_format", KEY_FORMATS)
def test_delete_names_its_row_by_a_key_with_its_schemas_id(
    make: MakePipeline, key_format: str
) -> None:
    """Sent: two rows; deletes by a good key, by one without its header, and under an unknown id."""
    pipeline = make_keyed(make, key_format, framed=True)
    good = encode_key(pipeline.topic, {"id": "a"})
    bare, unknown = good[5:], b"\0\xff\xff\xff\xff" + good[5:]
    deletes: list[tuple[object, ...]] = [(key, None, [], 0) for key in (good, bare, unknown)]
    pipeline.send(event("a", 1), event("b", 2), *deletes)

    pipeline.drain()

    assert [row.id for row in pipeline.rows()] == ["b"]
    letters = pipeline.letters()
    assert [letter.key for letter in letters] == [bare, unknown]
    reasons = [x.headers["__connect.errors.exception.class.name"] for x in letters]
    assert reasons == [b"not_framed", b"unknown_schema"]


@pytest.mark.parametrize("key_format", KEY_FORMATS)
def test_delete_names_its_row_by_a_bare_key_when_the_settings_say_so(
    make: MakePipeline, key_format: str
) -> None:
    """Sent: two rows; deletes by a bare key, and by the same with a header."""
    pipeline = make_keyed(make, key_format, framed=False)
    bare = encode_key(pipeline.topic, {"id": "a"})
    framed = b"\0\0\0\0\1" + encode_key(pipeline.topic, {"id": "b"})
    pipeline.send(event("a", 1), event("b", 2), (bare, None, [], 0), (framed, None, [], 0))

    pipeline.drain()

    assert [row.id for row in pipeline.rows()] == ["b"]
    [letter] = pipeline.letters()
    assert letter.headers["__connect.errors.exception.class.name"] == b"framed"


@pytest.mark.parametrize("framed", [True, False])
def test_deletes_by_keys_of_the_other_kind_stop_and_the_error_names_the_setting(
    make: MakePipeline, *, framed: bool
) -> None:
    """Sent: three deletes by bare keys where framed ones were promised; and the reverse."""
    pipeline = make_keyed(make, "json", framed, breaker={"min_rejected": 3})
    right = encode_key(pipeline.topic, {"id": "a"})
    wrong = right[5:] if framed else b"\0\0\0\0\1" + right
    pipeline.send(*[(wrong, None, [], 0)] * 3)

    with pytest.raises(BreakerTripped, match=f"table.key_framed = {str(not framed).lower()}"):
        pipeline.drain()


@pytest.mark.parametrize("key_format", KEY_FORMATS)
def test_start_is_refused_and_names_the_setting_when_no_key_is_registered(
    make: MakePipeline, key_format: str
) -> None:
    """Sent: nothing; no producer has registered a schema of the topic's keys."""
    pipeline = make_keyed(make, key_format, framed=True)
    with pytest.raises(RefusedError, match=r"-key'.*table\.key_framed = false"):
        pipeline.drain()


def test_doctor_has_a_line_for_keys_and_says_once_what_is_wrong_with_them(
    make: MakePipeline, capsys: pytest.CaptureFixture[str]
) -> None:
    """Looked at: before and after a producer has registered a schema of the topic's keys."""
    pipeline = make_keyed(make, "json", framed=True)
    require_nothing(pipeline.topic)
    pipeline.send(event("a", 1))
    assert not doctor.examine(pipeline.spark, pipeline.settings)
    said = capsys.readouterr().out
    assert "ok    schema registry: " in said
    assert "FAIL  keys: The schema registry at " in said
    assert said.count(f"has no subject '{pipeline.topic.name}-key'") == 1
    assert "FAIL  columns: see keys, above" in said

    encode_key(pipeline.topic, {"id": "a"})
    assert doctor.examine(pipeline.spark, pipeline.settings)
    assert f"ok    keys: json, {pipeline.topic.name}-key, newest id " in capsys.readouterr().out


def make_keyed(make: MakePipeline, key_format: str, framed: bool, **settings: Any) -> Pipeline:
    pipeline = make(table={"key_format": key_format, "key_framed": framed}, **settings)
    source = pipeline.topic.schema_path.with_name(f"{pipeline.topic.name}.key.proto")
    source.write_text(KEY)
    assert compile_proto(source) is None
    return pipeline
