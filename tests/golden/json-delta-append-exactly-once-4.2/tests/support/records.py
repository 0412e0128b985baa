"""How the tests' and the demo's records are written: as bare JSON."""

import json
from typing import Any

from orders_pipeline.settings import Topic


def schema_text(ddl: str) -> str:
    """What ``schemas/<topic>.ddl`` holds for these columns."""
    return ddl


def encode(topic: Topic, value: dict[str, Any]) -> bytes:
    """The value of a record for the topic."""
    return json.dumps(value).encode()


def spoiled(topic: Topic, value: dict[str, Any]) -> list[bytes]:
    """What a good value becomes when it is cut off, no object, no JSON, empty, or framed."""
    good = encode(topic, value)
    return [good[:-1], b"[1, 2]", b"\xff\xfe", b"", b"\0\0\0\0\1" + good]
