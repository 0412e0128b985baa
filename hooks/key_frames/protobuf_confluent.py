"""How a topic's keys are decoded, where a delete needs them: with their schema's id, or without."""

from collections.abc import Callable, Collection
from functools import partial

import pyarrow as pa
from pyspark.sql.types import StructType

from .bare import refuse_framed
from .decode import Decoded, make_decoder
from .framing import make_framed_decoder
from .keys import key_message, make_key_decoder, text_decoder
from .registry import writer_schemas
from .settings import Topic
from .values import decoder_of

MakeDecoder = Callable[[], Callable[[pa.Array], Decoded]]


def key_decoder(topic: Topic, fields: StructType) -> MakeDecoder:
    """What makes the decoder in each of Spark's workers; its rows hold just the key columns.

    The registry is asked here, on the driver: not for strings, which never bear a schema's id.

    Raises:
        SettingsError: a key of this format cannot hold the key columns.
        RefusedError, NoAnswerError: see ``registry.writer_schemas``.
    """
    make = _maker(topic, fields)
    return partial(make_key_decoder, make, topic.table.key_columns)


def _maker(topic: Topic, fields: StructType) -> MakeDecoder:
    table = topic.table
    if table.key_format == "protobuf":
        message = key_message(topic, fields)
        if table.key_framed:
            return decoder_of(topic, "key", message, "ignore")
        return partial(_make_bare, partial(make_decoder, *message, "ignore"))
    make = text_decoder(topic, fields)
    if table.key_format == "json" and table.key_framed:
        return partial(_make_framed, make, sorted(writer_schemas(topic, "JSON", "key")))
    return partial(_make_bare, make)


def _make_framed(make: MakeDecoder, ids: Collection[int]) -> Callable[[pa.Array], Decoded]:
    decode = make()
    return make_framed_decoder(lambda keys, _: decode(keys), ids)


def _make_bare(make: MakeDecoder) -> Callable[[pa.Array], Decoded]:
    return refuse_framed(make())
