"""The Protobuf decoder against google.protobuf, record by record, as it reads the messages itself.

Records are filled at random, many to an extreme, and damaged at random. What must come out is what
google.protobuf's own classes say of the bytes (``protobuf_records.py``), but for an unknown group
with a field 0, which ptars refuses.
"""

import importlib
import random
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorSet
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from protobuf_records import damaged, random_record, verdict
from rendering import compile_protos, render

PROTOS = Path(__file__).parent / "protos"
FILES = ["orders", "scalars", "legacy", "modern"]
PACKAGE = "protobuf_under_test"


@dataclass(frozen=True)
class Decoder:
    """The decoder of a generated repository, and the schemas as it has compiled them."""

    folder: Path

    def module(self, name: str) -> Any:
        return importlib.import_module(f"{PACKAGE}.{name}")

    def message(self, name: str) -> tuple[bytes, str]:
        """A compiled file, and the full name of its first message."""
        files = (self.folder / f"{name}.binpb").read_bytes()
        return files, self.module("protobuf_files").record_message(files)

    def descriptor(self, name: str) -> Any:
        return self.module("protobuf_files").find_message(*self.message(name))


@pytest.fixture(scope="module")
def decoder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Decoder]:
    folder = tmp_path_factory.mktemp("decode")
    tree = render(folder, project_name="protobuf-under-test", value_format="protobuf")
    shutil.copytree(PROTOS, tree / "schemas", dirs_exist_ok=True)
    compile_protos(tree)
    sys.path.insert(0, str(tree / "src"))
    try:
        yield Decoder(tree / "schemas")
    finally:
        sys.path.remove(str(tree / "src"))
        for name in [name for name in sys.modules if name.startswith(PACKAGE)]:
            del sys.modules[name]


def comparable(value: Any) -> Any:
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


def check(decoder: Decoder, name: str, values: list[bytes]) -> None:
    message, kind = decoder.message(name), decoder.descriptor(name)
    array = pa.array(values, pa.binary())
    decoded = decoder.module("decode").decode_values(array, *message, "ignore")
    decoded.rows.validate(full=True)
    fields = decoder.module("protobuf_types").arrow_fields(*message)
    assert decoded.rows.type == pa.struct(list(fields))
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
                found = str(comparable(row[field])), str(comparable(expected[field]))
                assert found[0] == found[1], (field, value)


many = settings(
    max_examples=30, deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.generate]
)


@pytest.mark.parametrize("name", FILES)
def test_row_is_what_google_reads_when_the_record_is_good(decoder: Decoder, name: str) -> None:
    kind = decoder.descriptor(name)

    @many
    @given(st.randoms(use_true_random=True))
    def compare(rng: random.Random) -> None:
        check(decoder, name, [random_record(rng, kind).SerializeToString() for _ in range(100)])

    compare()


@pytest.mark.parametrize("name", FILES)
def test_verdict_is_what_google_says_when_the_record_is_damaged(
    decoder: Decoder, name: str
) -> None:
    kind = decoder.descriptor(name)

    @many
    @given(st.randoms(use_true_random=True))
    def compare(rng: random.Random) -> None:
        good = [random_record(rng, kind).SerializeToString() for _ in range(20)]
        values = [damaged(rng, rng.choice(good), rng.choice(good)) for _ in range(100)]
        check(decoder, name, values)

    compare()


def widened(files: bytes) -> bytes:
    """The same files, each message of the last one with fields that are new."""
    kinds = ("TYPE_SINT64", "TYPE_STRING", "TYPE_FIXED32", "TYPE_DOUBLE", "TYPE_BOOL")
    wide = FileDescriptorSet.FromString(files)
    messages = list(wide.file[-1].message_type)
    while messages:
        message = messages.pop()
        messages += message.nested_type
        if message.options.map_entry:
            continue
        for number, kind in enumerate(kinds, 901):
            field = message.field.add(name=f"new_{number}", number=number, label=1)
            field.type = FieldDescriptorProto.Type.Value(kind)
        field = message.field.add(name="new_900", number=900, label=3)
        field.type = FieldDescriptorProto.TYPE_BYTES
    return wide.SerializeToString()


@pytest.mark.parametrize("name", FILES)
def test_row_is_what_google_reads_when_the_writer_has_more_fields(
    decoder: Decoder, name: str
) -> None:
    files, message = decoder.message(name)
    kind = decoder.module("protobuf_files").find_message(widened(files), message)

    @many
    @given(st.randoms(use_true_random=True))
    def compare(rng: random.Random) -> None:
        good = [random_record(rng, kind).SerializeToString() for _ in range(150)]
        check(decoder, name, [*good, *(damaged(rng, value, good[0]) for value in good[:10])])

    compare()
