"""A Kafka key to the key columns it stands for: which row a tombstone deletes.

``protobuf``: the first message of ``schemas/<topic>.key.proto``, which has fields of the same names
and types as the key columns; its others are ignored. Framed where values are.
``json`` and ``string``: see ``key_texts.py``.
"""

from collections.abc import Callable
from functools import cache, partial
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import StructType

from .arrow import arrow_schema
from .decode import Decoded
from .errors import SettingsError
from .key_texts import key_message, make_text_decoder
from .protobuf_files import Compiled
from .protobuf_types import arrow_fields
from .reasons import Reason
from .schema import compiled_schema, read_compiled
from .settings import Topic
from .values import decoder_of

KeyDecoder = Callable[[pa.BinaryArray], Decoded]


def key_decoder(topic: Topic, fields: StructType) -> Callable[[], KeyDecoder]:
    """What makes the decoder in each of Spark's workers, where it cannot be sent to.

    Its rows hold just the key columns, all of them set. A null key is rejected as ``null_key``.

    Raises:
        SettingsError: a key of this format cannot hold the key columns.
        PipelineError: what the schema registry raises, where there is one.
    """
    names, key_format = topic.table.key_columns, topic.table.key_format
    if key_format == "protobuf":
        compiled = _key_schema(topic, arrow_schema(fields))
        return partial(_make_decoder, decoder_of(topic, "key", compiled, "ignore"), names)
    if key_format == "string" and len(names) != 1:
        raise SettingsError(
            f"A string key holds one key column, not {names}; use the key format json or protobuf"
        )
    message = key_message(compiled_schema(fields), names)
    make_decoder = partial(make_text_decoder, message, names, key_format == "string")
    return partial(_make_decoder, make_decoder, names)


def _make_decoder(make_decoder: Callable[[], KeyDecoder], names: list[str]) -> KeyDecoder:
    decode = make_decoder()

    def decode_keys(keys: pa.BinaryArray) -> Decoded:
        rows, reasons, messages = decode(keys)
        columns = [rows.field(name) for name in names]
        faults = [(keys.is_null(), Reason.NULL_KEY, "The record has no key")]
        for name, column in zip(names, columns, strict=True):
            words = f"The key column {name} is not in the key"
            faults.append((column.is_null(), Reason.MISSING_FIELD, words))
        for where, reason, words in faults:
            is_first = pc.and_(where, reasons.is_null())
            reasons = pc.if_else(is_first, str(reason), reasons)
            messages = pc.if_else(is_first, words, messages)
        key_rows = pa.StructArray.from_arrays(columns, names, mask=reasons.is_valid())
        return Decoded(key_rows, reasons, messages)

    return decode_keys


_read_once = cache(read_compiled)  # what it says holds for as long as the pipeline runs


def _key_schema(topic: Topic, columns: pa.Schema) -> Compiled:
    path = Path(topic.schema_path).with_name(f"{topic.name}.key.proto")
    compiled = _read_once(path, None)
    found = arrow_fields(*compiled)
    for name in topic.table.key_columns:
        kind = found.field(name).type if name in found.names else "missing"
        if kind != columns.field(name).type:
            raise SettingsError(
                f"{path} does not give the key column {name!r}: it would have to be "
                f"{columns.field(name).type} there as in {topic.schema_path}, and is {kind}"
            )
    return compiled
