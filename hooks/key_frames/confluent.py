"""How a topic's keys are decoded, where a delete needs them: with their schema's id, or without."""

from collections.abc import Callable, Collection
from functools import partial
from typing import Literal

import pyarrow as pa

from .decode import Decoded
from .framing import make_framed_decoder
from .keys import make_key_decoder
from .registry import writer_schemas
from .settings import Topic


def key_decoder(topic: Topic, columns: pa.Schema) -> Callable[[], Callable[[pa.Array], Decoded]]:
    """What makes the decoder in each of Spark's workers; *columns* are just the key columns.

    The registry is asked here, on the driver: not for strings, which never bear a schema's id.

    Raises:
        RefusedError, NoAnswerError, SettingsError: see ``registry.writer_schemas``.
    """
    table = topic.table
    if table.key_format == "string":
        return partial(make_key_decoder, columns, "string")
    ids = sorted(writer_schemas(topic, "JSON", "key")) if table.key_framed else None
    return partial(_make_decoder, columns, table.key_format, ids)


def _make_decoder(
    columns: pa.Schema, key_format: Literal["json"], ids: Collection[int] | None
) -> Callable[[pa.Array], Decoded]:
    decode = make_key_decoder(columns, key_format)
    return decode if ids is None else make_framed_decoder(decode, ids)
