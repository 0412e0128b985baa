"""How a topic's values are decoded: JSON behind a schema's id, by the fields of our own schema.

The registry says which ids are of this topic. Its JSON Schemas are for producers: which columns
there are, and what a record must hold, ``schemas/<topic>.ddl`` says.
"""

from collections.abc import Callable, Collection
from functools import partial
from typing import Literal

import pyarrow as pa
from pyspark.sql.types import StructType

from .arrow import arrow_schema
from .decode import Decoded, make_decoder
from .framing import make_framed_decoder
from .registry import writer_schemas
from .settings import Topic


def value_decoder(
    topic: Topic, fields: StructType
) -> Callable[[], Callable[[pa.BinaryArray], Decoded]]:
    """What makes the decoder in each of Spark's workers, where it cannot be sent to.

    The registry is asked here, on the driver: a schema is in it before a record bears its id.

    Raises:
        NoAnswerError: the registry does not answer.
    """
    unknown_fields = topic.settings.decode.unknown_fields
    ids = sorted(writer_schemas(topic, "JSON"))
    return partial(_make_decoder, arrow_schema(fields), unknown_fields, ids)


def _make_decoder(
    columns: pa.Schema, unknown_fields: Literal["ignore", "reject"], ids: Collection[int]
) -> Callable[[pa.BinaryArray], Decoded]:
    decode = make_decoder(columns, unknown_fields)
    return make_framed_decoder(lambda values, _: decode(values), ids)
