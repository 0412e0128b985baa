"""How a topic's values are decoded: bare Protobuf, by the message of its schema."""

from collections.abc import Callable
from functools import partial
from typing import Literal

import pyarrow as pa
from pyspark.sql.types import StructType

from .bare import refuse_framed
from .decode import Decoded, make_decoder
from .protobuf_files import Compiled
from .schema import compiled_schema
from .settings import Topic


def value_decoder(
    topic: Topic, fields: StructType
) -> Callable[[], Callable[[pa.BinaryArray], Decoded]]:
    """Makes the decoder inside each of Spark's workers: the decoder itself cannot be pickled."""
    unknown_fields = topic.settings.decode.unknown_fields
    return decoder_of(compiled_schema(fields), unknown_fields)


def decoder_of(
    compiled: Compiled, unknown_fields: Literal["ignore", "reject"]
) -> Callable[[], Callable[[pa.BinaryArray], Decoded]]:
    """The same for values, or keys, that are of this message."""
    return partial(_make_decoder, compiled, unknown_fields)


def _make_decoder(
    compiled: Compiled, unknown_fields: Literal["ignore", "reject"]
) -> Callable[[pa.BinaryArray], Decoded]:
    return refuse_framed(make_decoder(*compiled, unknown_fields))
