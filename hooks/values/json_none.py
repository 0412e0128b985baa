"""How a topic's values are decoded: bare JSON, by the fields of its schema."""

from collections.abc import Callable
from functools import partial
from typing import Literal

import pyarrow as pa
from pyspark.sql.types import StructType

from .arrow import arrow_schema
from .bare import refuse_framed
from .decode import Decoded, make_decoder
from .settings import Topic


def value_decoder(
    topic: Topic, fields: StructType
) -> Callable[[], Callable[[pa.BinaryArray], Decoded]]:
    """Makes the decoder inside each of Spark's workers: the decoder itself cannot be pickled."""
    return partial(_make_decoder, arrow_schema(fields), topic.settings.decode.unknown_fields)


def _make_decoder(
    columns: pa.Schema, unknown_fields: Literal["ignore", "reject"]
) -> Callable[[pa.BinaryArray], Decoded]:
    return refuse_framed(make_decoder(columns, unknown_fields))
