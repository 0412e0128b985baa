"""The values of an output topic, as a reader of it decodes them."""

import json
from typing import Any

from orders_pipeline.settings import Topic


def decode_value(topic: Topic, value: bytes | None) -> dict[str, Any]:
    """The fields of a value."""
    found: dict[str, Any] = json.loads(value or b"")
    return found
