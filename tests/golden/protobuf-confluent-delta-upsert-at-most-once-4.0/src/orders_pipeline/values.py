"""How a topic's values are decoded: Protobuf behind a schema's id, by our own message.

The registry says which ids are of this topic, and which message of its version a value is. Which
columns there are ``schemas/<topic>.proto`` says: Protobuf reads any version by another's numbers.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Literal

import pyarrow as pa
from pyspark.sql.types import StructType

from .decode import Decoded, make_decoder
from .framing import make_framed_decoder
from .message_index import Names, make_indexed_decoder
from .protobuf_files import Compiled
from .protobuf_versions import messages_by_id
from .registry import Part, writer_schemas
from .schema import compiled_schema
from .settings import Topic


def value_decoder(
    topic: Topic, fields: StructType
) -> Callable[[], Callable[[pa.BinaryArray], Decoded]]:
    """What makes the decoder in each of Spark's workers, where it cannot be sent to.

    The registry is asked here, on the driver: a schema is in it before a record bears its id.

    Raises:
        RefusedError: it has no such subject, or not of Protobuf.
        NoAnswerError: the registry does not answer.
    """
    unknown_fields = topic.settings.decode.unknown_fields
    return decoder_of(topic, "value", compiled_schema(fields), unknown_fields)


def decoder_of(
    topic: Topic, part: Part, compiled: Compiled, unknown_fields: Literal["ignore", "reject"]
) -> Callable[[], Callable[[pa.BinaryArray], Decoded]]:
    """The same for the topic's values, or its keys, that are of this message."""
    versions = messages_by_id(writer_schemas(topic, "PROTOBUF", part))
    return partial(_make_decoder, compiled, unknown_fields, versions)


def _make_decoder(
    compiled: Compiled,
    unknown_fields: Literal["ignore", "reject"],
    versions: Mapping[int, Names | None],
) -> Callable[[pa.BinaryArray], Decoded]:
    decode = make_decoder(*compiled, unknown_fields)
    return make_framed_decoder(make_indexed_decoder(decode, versions, compiled.message), versions)
