"""How a topic's keys are decoded, where a delete needs them: they bear no schema's id."""

from collections.abc import Callable
from functools import partial
from typing import Literal

import pyarrow as pa
from pyspark.sql.types import StructType

from .bare import refuse_framed
from .decode import Decoded
from .keys import key_columns, make_key_decoder
from .settings import Topic


def key_decoder(topic: Topic, fields: StructType) -> Callable[[], Callable[[pa.Array], Decoded]]:
    """What makes the decoder in each of Spark's workers; its rows hold just the key columns."""
    return partial(_make_decoder, key_columns(topic, fields), topic.table.key_format)


def _make_decoder(
    columns: pa.Schema, key_format: Literal["string", "json"]
) -> Callable[[pa.Array], Decoded]:
    return refuse_framed(make_key_decoder(columns, key_format))
