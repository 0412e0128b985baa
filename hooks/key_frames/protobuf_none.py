"""How a topic's keys are decoded, where a delete needs them: they bear no schema's id."""

from collections.abc import Callable
from functools import partial

import pyarrow as pa
from pyspark.sql.types import StructType

from .bare import refuse_framed
from .decode import Decoded
from .keys import key_message, make_key_decoder, text_decoder
from .settings import Topic
from .values import decoder_of


def key_decoder(topic: Topic, fields: StructType) -> Callable[[], Callable[[pa.Array], Decoded]]:
    """What makes the decoder in each of Spark's workers; its rows hold just the key columns.

    Raises:
        SettingsError: a key of this format cannot hold the key columns.
    """
    if topic.table.key_format == "protobuf":
        make_decoder = decoder_of(key_message(topic, fields), "ignore")
    else:
        make_decoder = partial(_make_bare, text_decoder(topic, fields))
    return partial(make_key_decoder, make_decoder, topic.table.key_columns)


def _make_bare(
    make_decoder: Callable[[], Callable[[pa.Array], Decoded]],
) -> Callable[[pa.Array], Decoded]:
    return refuse_framed(make_decoder())
