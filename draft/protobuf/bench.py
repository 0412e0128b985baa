"""Rows a second of the decoder alone: python bench.py (one core: taskset -c 0)."""

import random
import time

import pyarrow as pa
from google.protobuf import descriptor_pb2
from google.protobuf.message_factory import GetMessageClass

from tryout.decode import make_decoder
from tryout.protobuf_files import find_message

F = descriptor_pb2.FieldDescriptorProto


def descriptor_set() -> bytes:
    """An order of 160 bytes: scalars, an optional, an enum, a timestamp, tags and two items."""
    files = descriptor_pb2.FileDescriptorSet()
    file = files.file.add(name="bench.proto", package="bench", syntax="proto3")
    file.dependency.append("google/protobuf/timestamp.proto")
    status = file.enum_type.add(name="Status")
    for number, name in enumerate(("NONE", "NEW", "PAID", "SENT", "VOID")):
        status.value.add(name=name, number=number)
    order = file.message_type.add(name="Order")
    item = order.nested_type.add(name="Item")
    for number, (name, kind) in enumerate(
        (("sku", F.TYPE_STRING), ("qty", F.TYPE_INT32), ("price", F.TYPE_DOUBLE)), 1
    ):
        item.field.add(name=name, number=number, type=kind, label=1)
    order.field.add(name="id", number=1, type=F.TYPE_INT64, label=1)
    order.field.add(name="customer", number=2, type=F.TYPE_STRING, label=1)
    order.field.add(
        name="at", number=3, type=F.TYPE_MESSAGE, label=1, type_name=".google.protobuf.Timestamp"
    )
    order.field.add(name="status", number=4, type=F.TYPE_ENUM, label=1, type_name=".bench.Status")
    order.field.add(name="amount", number=5, type=F.TYPE_DOUBLE, label=1)
    order.oneof_decl.add(name="_note")
    order.field.add(
        name="note", number=6, type=F.TYPE_STRING, label=1, proto3_optional=True, oneof_index=0
    )
    order.field.add(
        name="items", number=7, type=F.TYPE_MESSAGE, label=3, type_name=".bench.Order.Item"
    )
    order.field.add(name="tags", number=8, type=F.TYPE_STRING, label=3)
    return files.SerializeToString()


def order(n: int, kind: type) -> bytes:
    """The n-th record."""
    record = kind(id=n, customer=f"customer-{n % 5000}", status=n % 5, amount=n * 1.5)
    record.note = f"a note about {n}, with some words to get to the size meant"
    record.tags.extend(["a", "red"])
    record.at.seconds, record.at.nanos = 1_700_000_000 + n, n * 1000
    for line in range(2):
        record.items.add(sku=f"sku-{line}", qty=line + 1, price=9.5)
    return record.SerializeToString()


def measure(label: str, values: list[bytes], schema: bytes) -> None:
    """Prints the best of three runs over *values*, in batches of 10,000."""
    decode = make_decoder(schema, "bench.Order", "ignore")
    array = pa.array(values, pa.binary())
    best = float("inf")
    for _ in range(3):
        start = time.perf_counter()
        batches = [decode(array.slice(at, 10_000)) for at in range(0, len(array), 10_000)]
        best = min(best, time.perf_counter() - start)
    rejected = sum(len(batch.reasons) - batch.reasons.null_count for batch in batches)
    print(f"{label:32s} {len(values) / best:10,.0f} rows/s   {rejected} rejected")


def main() -> None:
    """Prints the rates."""
    schema = descriptor_set()
    kind = GetMessageClass(find_message(schema, "bench.Order"))
    good = [order(n, kind) for n in range(100_000)]
    print(f"{sum(map(len, good)) / len(good):.0f} bytes a record")
    rng = random.Random(1)  # noqa: S311
    measure("all good", good, schema)
    for share in (0.0001, 0.001, 0.01, 0.1):
        values = [value[:-3] if rng.random() < share else value for value in good]
        measure(f"{share:.2%} cut off", values, schema)
    measure("a field unknown in 1%", [
        value + b"\x78\x01" if n % 100 == 0 else value for n, value in enumerate(good)
    ], schema)  # fmt: skip
    measure("a field unknown in each", [value + b"\x78\x01" for value in good], schema)
    measure("order of fields reversed in each", [value[9:] + value[:9] for value in good], schema)


main()
