"""What is read of ``schemas/<topic>.proto``, and what is said of one that cannot be."""

from pathlib import Path
from typing import Any

import pytest

from orders_pipeline.arrow import arrow_schema
from orders_pipeline.errors import SettingsError
from orders_pipeline.protobuf_types import arrow_fields
from orders_pipeline.schema import (
    compiled_schema,
    fingerprint,
    read_schema,
)
from orders_pipeline.settings import Settings, Topic

from scripts.compile_protos import compile_proto

TEXT = """
syntax = "proto3";
package shop;
import "google/protobuf/duration.proto";
import "google/protobuf/struct.proto";
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
enum Status { NONE = 0; PAID = 1; }
message Order {
  int64 id = 1;
  optional string note = 2;
  uint32 count = 3;
  fixed64 total = 4;
  Status status = 5;
  repeated float weights = 6;
  map<string, Item> items = 7;
  google.protobuf.Timestamp at = 8;
  google.protobuf.Duration took = 9;
  google.protobuf.Struct extra = 10;
  google.protobuf.BytesValue raw = 11;
  Nothing nothing = 12;
}
message Item { bool free = 1; }
message Nothing {}
"""


def topic_of(folder: Path, text: str | None = TEXT, **decode: Any) -> Topic:
    if text is not None:
        (folder / "events.proto").write_text(text)
        assert compile_proto(folder / "events.proto") is None
    settings: dict[str, Any] = {
        "name": "tests",
        "topics": ["events"],
        "trigger": "availableNow",
        "schemas": folder,
        "decode": decode,
        "table": {"key_columns": ["id"]},
    }
    return Settings(**settings).topic_settings("events")


def test_each_field_is_a_column_of_its_type(tmp_path: Path) -> None:
    fields = read_schema(topic_of(tmp_path))
    assert {field.name: field.dataType.simpleString() for field in fields} == {
        "id": "bigint",
        "note": "string",
        "count": "bigint",
        "total": "decimal(20,0)",
        "status": "string",
        "weights": "array<float>",
        "items": "map<string,struct<free:boolean>>",
        "at": "timestamp",
        "took": "bigint",
        "extra": "string",
        "raw": "binary",
        "nothing": "boolean",
    }
    required = [field.name for field in fields if not field.nullable]
    assert required == ["id", "count", "total", "status", "weights", "items"]
    assert arrow_schema(fields) == arrow_fields(*compiled_schema(fields))


def test_message_that_the_settings_name_is_read_in_place_of_the_first(tmp_path: Path) -> None:
    topic = topic_of(tmp_path, messages={"events": "Item"})
    assert read_schema(topic).names == ["free"]
    assert compiled_schema(read_schema(topic)).message == "shop.Item"


def test_fingerprint_changes_with_all_that_decides_how_a_record_is_read(tmp_path: Path) -> None:
    def found(topic: Topic) -> str:
        return fingerprint(topic, read_schema(topic))

    first = found(topic_of(tmp_path))
    assert found(topic_of(tmp_path)) == first
    assert found(topic_of(tmp_path, unknown_fields="reject")) != first
    assert found(topic_of(tmp_path, messages={"events": "Item"})) != first
    assert found(topic_of(tmp_path, TEXT.replace("note = 2", "note = 13"))) != first


def test_schema_that_is_missing_or_not_compiled_as_it_is_now_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"events\.proto is missing"):
        read_schema(topic_of(tmp_path, None))
    topic = topic_of(tmp_path)
    (tmp_path / "events.proto").write_text(TEXT + "// more")
    with pytest.raises(SettingsError, match=r"is of another text .* Run: make protos"):
        read_schema(topic)
    (tmp_path / "events.binpb").unlink()
    with pytest.raises(SettingsError, match=r"events\.binpb is missing\. Run: make protos"):
        read_schema(topic)


@pytest.mark.parametrize(
    ("text", "messages", "words"),
    [
        ('syntax = "proto3"; enum A { B = 0; }', {}, r"events\.proto: .* has no message"),
        (TEXT, {"events": "Cart"}, r"events\.proto: .* It has: shop\.Order, shop\.Item"),
        (TEXT, {"events": "Nothing"}, r"events\.proto: shop\.Nothing has no fields"),
        ('syntax = "proto3"; message A { A a = 1; }', {}, r"events\.proto: A contains itself"),
    ],
)
def test_schema_without_such_a_record_is_refused_by_its_file(
    tmp_path: Path, text: str, messages: dict[str, str], words: str
) -> None:
    with pytest.raises(SettingsError, match=words):
        read_schema(topic_of(tmp_path, text, messages=messages))


def test_message_of_a_topic_that_is_none_is_a_wrong_setting(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"decode\.messages names other"):
        topic_of(tmp_path, messages={"other": "Order"})
