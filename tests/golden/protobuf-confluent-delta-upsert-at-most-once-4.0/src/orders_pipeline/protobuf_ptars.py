"""ptars for one message: values to plain rows (``protobuf_plain.py``) and back, by the batch.

ptars keeps no field that its message lacks, so that a row of a writer whose schema is ahead of ours
would never be written as the value was. Such fields are added to the plain message as they are met.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
from google.protobuf.descriptor import Descriptor
from ptars import HandlerPool, PtarsConfig

from .protobuf_judge import UnknownField
from .protobuf_plain import plain_message

# Bytes that happen to look like a field are met once; and ptars has a table as long as a message's
# highest number, for every batch.
_OFTEN = 4
_MOST_FIELDS = 200
_HIGHEST_NUMBER = 10_000


class Ptars:
    """Reads and writes values of one message."""

    def __init__(self, message: Descriptor) -> None:
        """Knows just the fields of *message*."""
        self._message = message
        self._unknown: dict[str, dict[int, int]] = {}
        self._handler = self._new_handler()

    def read(self, values: pa.BinaryArray) -> pa.RecordBatch | None:
        """The rows of *values*; None where one of them is not the message."""
        try:
            return self._handler.array_to_record_batch(values)
        except ValueError:
            return None
        except BaseException as error:
            # A length near 2**64 makes it panic: no Exception, and of a class without an address.
            if type(error).__name__ == "PanicException":
                return None
            raise

    def write(self, rows: pa.RecordBatch) -> pa.BinaryArray:
        """What the rows are as values."""
        return self._handler.record_batch_to_array(rows)

    def learn(self, met: Iterable[set[UnknownField]]) -> bool:
        """Knows from now on what is often among *met*, the unknown fields of each of some values.

        False where there is nothing new.
        """
        is_new = False
        for (owner, number, wire_type), times in Counter(f for each in met for f in each).items():
            fields = self._unknown.setdefault(owner, {})
            known = sum(map(len, self._unknown.values()))
            # A group, of wire type 3, is nothing that a plain message could have.
            if times < _OFTEN or wire_type == 3 or number in fields or known >= _MOST_FIELDS:
                continue
            if number <= _HIGHEST_NUMBER:
                fields[number] = wire_type
                is_new = True
        if is_new:
            self._handler = self._new_handler()
        return is_new

    def _new_handler(self) -> Any:
        plain, _ = plain_message(self._message, json_as_bytes=True, unknown=self._unknown)
        # An entry of a map without a value is a panic unless a value may be null.
        config = PtarsConfig(list_value_name="element", map_value_nullable=True)
        return HandlerPool([plain.file], config).get_for_message(plain)
