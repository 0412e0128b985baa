"""A Kafka key to the key columns it stands for: which row a tombstone deletes.

``protobuf``: the first message of ``schemas/<topic>.key.proto``, which has fields of the same names
and types as the key columns; its others are ignored.
``json`` and ``string``: see ``key_texts.py``.
"""

from collections.abc import Callable
from functools import cache, partial

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import StructType

from .arrow import arrow_schema
from .decode import Decoded
from .errors import SettingsError
from .key_texts import make_text_decoder, reduced
from .protobuf_files import Compiled
from .protobuf_types import arrow_fields
from .reasons import Reason
from .schema import compiled_schema, read_compiled
from .settings import Topic

KeyDecoder = Callable[[pa.BinaryArray], Decoded]


def make_key_decoder(make_decoder: Callable[[], KeyDecoder], names: list[str]) -> KeyDecoder:
    """A decoder of keys, by one of what they hold.

    Its rows hold just the key columns, all of them set. A null key is rejected as ``null_key``.
    """
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


def text_decoder(topic: Topic, fields: StructType) -> Callable[[], KeyDecoder]:
    """What makes, in each of Spark's workers, a decoder of keys that are strings or JSON.

    Raises:
        SettingsError: a string is to hold several key columns.
    """
    names, is_bare = topic.table.key_columns, topic.table.key_format == "string"
    if is_bare and len(names) != 1:
        raise SettingsError(
            f"A string key holds one key column, not {names}; use the key format json or protobuf"
        )
    return partial(make_text_decoder, reduced(compiled_schema(fields), names), names, is_bare)


_read_once = cache(read_compiled)  # what it says holds for as long as the pipeline runs


def key_message(topic: Topic, fields: StructType) -> Compiled:
    """The message that keys are, of ``schemas/<topic>.key.proto``.

    Raises:
        SettingsError: it does not give the key columns, or see ``schema.read_compiled``.
    """
    columns = arrow_schema(fields)
    path = topic.schema_path.with_name(f"{topic.name}.key.proto")
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
