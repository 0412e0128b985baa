"""Keys that are text, by the types of the record's own message.

``json``: an object that holds the key columns, written as Protobuf's own JSON is: a number may be a
string, an enum is its name, and a field has its name in the .proto or in JSON (``order_id`` or
``orderId``, not both). Its other fields are ignored.
``string``: the text of the one key column, bare: ``42``, ``true``, ``any text``.
Bytes are base64 in both: of the standard alphabet, padded.
"""

import json
import re
from base64 import b64decode
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from google.protobuf import json_format
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.message_factory import GetMessageClass

from .decode import Decoded, make_decoder
from .protobuf_files import Compiled, find_message, message_names
from .protobuf_types import arrow_fields
from .reasons import Reason

Rejection = tuple[Reason, str]
_WHOLE = re.compile(r"-?(0|[1-9][0-9]*)")
_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")


def reduced(record: Compiled, names: list[str]) -> Compiled:
    """The message of the records with just the fields *names*, which are required ones."""
    files = FileDescriptorSet.FromString(record.descriptor_set)
    place = message_names(files.file[-1])[record.message]
    message = files.file[-1].message_type[place[0]]
    for number in place[1:]:
        message = message.nested_type[number]
    kept = [field for field in message.field if field.name in names]
    del message.field[:], message.oneof_decl[:]
    message.field.extend(kept)
    return Compiled(files.SerializeToString(), record.message)


def make_text_decoder(
    message: Compiled, names: list[str], is_bare: bool
) -> Callable[[pa.BinaryArray], Decoded]:
    """A decoder of keys that are the text of the one key column, or else JSON."""
    decode = make_decoder(*message, "ignore")
    binary = {field.name for field in arrow_fields(*message) if field.type == pa.binary()}
    write = _writer(find_message(*message), names, binary, is_bare)

    def decode_texts(keys: pa.BinaryArray) -> Decoded:
        written = [None if key is None else write(key) for key in keys.to_pylist()]
        values = [None if isinstance(each, tuple) else each for each in written]
        verdicts = [each if isinstance(each, tuple) else (None, None) for each in written]
        rows, reasons, messages = decode(pa.array(values, pa.binary()))
        return Decoded(
            rows,
            pc.coalesce(pa.array([reason for reason, _ in verdicts], pa.string()), reasons),
            pc.coalesce(pa.array([words for _, words in verdicts], pa.string()), messages),
        )

    return decode_texts


def _writer(
    kind: Descriptor, names: list[str], binary: set[str], is_bare: bool
) -> Callable[[bytes], bytes | Rejection]:
    """What makes a message of a key's text, or says why it is none; ``binary`` names its bytes."""
    make: Any = GetMessageClass(kind)
    fields = {name: kind.fields_by_name[name] for name in names}

    def write(key: bytes) -> bytes | Rejection:
        try:
            text = key.decode()
            found = {names[0]: _literal(text, fields[names[0]])} if is_bare else json.loads(text)
        except (ValueError, RecursionError):
            return Reason.UNDECODABLE, f"The key is not {'UTF-8' if is_bare else 'JSON'}"
        if not isinstance(found, dict):
            return Reason.WRONG_TYPE, "Expected `object`, got another type"
        message = make()
        for name in names:
            given = [found[each] for each in {name, fields[name].json_name} if each in found]
            if len(given) > 1:
                return Reason.UNDECODABLE, f"The key has both names of the field `{name}`"
            if given in ([], [None]):
                return Reason.MISSING_FIELD, f"Object missing required field `{name}`"
            try:
                if name in binary:  # Protobuf's JSON skips what is no base64
                    b64decode(given[0], validate=True)
                json_format.ParseDict({name: given[0]}, message)
            except (json_format.ParseError, TypeError, ValueError) as error:
                is_large = "out of range" in str(error)
                reason = Reason.OUT_OF_RANGE if is_large else Reason.WRONG_TYPE
                return reason, f"Not what the field's type takes - at `$.{name}`"
        whole: bytes = message.SerializePartialToString()
        return whole

    return write


def _literal(text: str, field: FieldDescriptor) -> Any:
    """What JSON would have in place of *text*; an object, which no field takes, for none."""
    if field.type == FieldDescriptor.TYPE_BOOL:
        return {"true": True, "false": False}.get(text, {})
    if field.cpp_type in (FieldDescriptor.CPPTYPE_FLOAT, FieldDescriptor.CPPTYPE_DOUBLE):
        return text if _NUMBER.fullmatch(text) else {}
    if field.cpp_type in (FieldDescriptor.CPPTYPE_STRING, FieldDescriptor.CPPTYPE_ENUM):
        return text
    return text if _WHOLE.fullmatch(text) else {}
