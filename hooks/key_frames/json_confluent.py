"""How a topic's keys are decoded, where a delete needs them: with their schema's id, or without."""

from collections.abc import Callable, Collection
from functools import partial
from typing import Literal

import pyarrow as pa
from pyspark.sql.types import StructType

from .bare import refuse_framed
from .decode import Decoded
from .framing import make_framed_decoder
from .keys import key_columns, make_key_decoder
from .registry import writer_schemas
from .settings import Topic


def key_decoder(topic: Topic, fields: StructType) -> Callable[[], Callable[[pa.Array], Decoded]]:
    """What makes the decoder in each of Spark's workers; its rows hold just the key columns.

    The registry is asked here, on the driver: not for strings, which never bear a schema's id.

    Raises:
        RefusedError, NoAnswerError, SettingsError: see ``registry.writer_schemas``.
    """
    table, columns = topic.table, key_columns(topic, fields)
    if table.key_format == "json" and table.key_framed:
        return partial(_make_framed, columns, sorted(writer_schemas(topic, "JSON", "key")))
    return partial(_make_bare, columns, table.key_format)


def _make_framed(columns: pa.Schema, ids: Collection[int]) -> Callable[[pa.Array], Decoded]:
    decode = make_key_decoder(columns, "json")
    return make_framed_decoder(lambda keys, _: decode(keys), ids)


def _make_bare(
    columns: pa.Schema, key_format: Literal["string", "json"]
) -> Callable[[pa.Array], Decoded]:
    return refuse_framed(make_key_decoder(columns, key_format))
