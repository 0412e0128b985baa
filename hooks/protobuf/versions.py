"""The messages of each version of a subject, compiled on the driver where the registry has text.

Confluent's registry gives a descriptor, in base64, whoever registered the schema; others give what
was registered: that, or the text of a .proto.
"""

import logging
import subprocess
import sys
import tempfile
from base64 import b64decode
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.message import DecodeError

from .protobuf_files import message_names
from .registry import Registered

_FILE = "record-of-the-registry.proto"
log = logging.getLogger(__name__)


def messages_by_id(
    versions: Mapping[int, Registered],
) -> dict[int, dict[tuple[int, ...], str] | None]:
    """For each schema the full names of its messages by their places; None if it is no Protobuf."""
    return {number: _messages(version) for number, version in versions.items()}


def _messages(version: Registered) -> dict[tuple[int, ...], str] | None:
    file = file_of(version)
    if file is None:
        return None
    places = {place: name for name, place in message_names(file).items()}
    if _descriptor(_FILE, version.schema):
        return places
    # Of a text, serializers that compile it count what maps and groups are made of as messages, and
    # those that read it do not. A place that is of one message to these and of another to those is
    # of none.
    written = {place: name for name, place in message_names(file, as_written=True).items()}
    both = places | written
    return {place: name for place, name in both.items() if places.get(place, name) == name}


@lru_cache(maxsize=1024)
def file_of(version: Registered) -> FileDescriptorProto | None:
    """The file of a version, without what it imports; None if it is no Protobuf."""
    try:
        return _descriptor(_FILE, version.schema) or _compiled(version)
    except ValueError as error:
        log.error("schema %d of the registry does not compile: %s", version.id, error)
        return None


def _descriptor(name: str, schema: str) -> FileDescriptorProto | None:
    """The file that *schema* is in base64, under the name that others import it by."""
    try:
        file = FileDescriptorProto.FromString(b64decode(schema, validate=True))
    except (ValueError, DecodeError):
        return None
    file.name = name
    return file


def _compiled(version: Registered) -> FileDescriptorProto:
    """The file of a version that is text, with what it refers to beside it, text or not.

    Raises:
        ValueError: it does not compile; in protoc's words.
    """
    with tempfile.TemporaryDirectory() as folder:
        sources, made = Path(folder, "sources"), Path(folder, "made")
        described = FileDescriptorSet()
        for name, schema in [*version.references, (_FILE, version.schema)]:
            path = Path(sources, name).resolve()
            if not path.is_relative_to(sources.resolve()):
                raise ValueError(f"it refers to {name!r}, a path that leads out of its folder")
            path.parent.mkdir(parents=True, exist_ok=True)
            if file := _descriptor(name, schema):
                described.file.append(file)
            else:
                path.write_text(schema, encoding="utf-8")
        Path(folder, "described").write_bytes(described.SerializeToString())
        run = subprocess.run(  # noqa: S603
            [
                *(sys.executable, "-m", "grpc_tools.protoc", f"--proto_path={sources}"),
                *(f"--descriptor_set_in={folder}/described", f"--descriptor_set_out={made}"),
                _FILE,
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        if run.returncode:
            raise ValueError(" ".join(run.stderr.split()))
        return FileDescriptorSet.FromString(made.read_bytes()).file[-1]
