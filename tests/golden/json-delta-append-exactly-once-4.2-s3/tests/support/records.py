"""How the tests' and the demo's records are written: as bare JSON."""

import base64
import json
from datetime import date
from typing import Any

from orders_pipeline.settings import Topic

LACKS_A_FIELD = "missing_field"
"""Why a record is rejected that was written without a field that is required."""


def schema_text(ddl: str) -> str:
    """What ``schemas/<topic>.ddl`` holds for these columns."""
    return ddl


def encode(topic: Topic, value: dict[str, Any]) -> bytes:
    """The value of a record for the topic; of Python's types, as a row has them."""
    return json.dumps(value, default=_as_json).encode()


def _as_json(value: Any) -> str:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return value.isoformat() if isinstance(value, date) else str(value)


def spoiled(topic: Topic, value: dict[str, Any]) -> list[bytes]:
    """What a good value becomes when it is cut off, no object, no JSON, empty, or framed."""
    good = encode(topic, value)
    return [good[:-1], b"[1, 2]", b"\xff\xfe", b"", b"\0\0\0\0\1" + good]
