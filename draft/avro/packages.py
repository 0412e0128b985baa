"""Puts the modules of this folder into rendered packages, as the template would."""

import importlib
import re
import shutil
import sys
from pathlib import Path

HERE = Path(__file__).parent
REASONS = '''
    FRAMED = "framed"
    """Bare bytes were promised, and the value starts as a schema registry's frame does."""

    NOT_FRAMED = "not_framed"
    """A schema registry's frame was promised, and the value has none."""

    UNKNOWN_SCHEMA = "unknown_schema"
    """The registry does not list the record's schema id for this topic."""

    INCOMPATIBLE_SCHEMA = "incompatible_schema"
    """The record's schema cannot be read with this pipeline's."""
'''
REGISTRY = """
from typing import NamedTuple


class Reference(NamedTuple):
    name: str
    schema: str


class Registered(NamedTuple):
    id: int
    version: int
    type: str
    schema: str
    references: tuple[Reference, ...]


SUBJECTS: dict[tuple[str, str], dict[int, Registered]] = {}


def writer_schemas(topic: object, schema_type: str, part: str = "value") -> dict[int, Registered]:
    return SUBJECTS[topic.name, part]  # type: ignore[attr-defined]
"""


def build(root: Path, wire: str, mode: str) -> str:
    """Makes the package ``<wire>_<mode>`` under *root*; its name."""
    name = f"{wire}_{mode}"
    target = root / name
    shutil.copytree(HERE / "render" / mode / "src" / "orders_pipeline", target)
    for module in ("avro", "avro_columns", "avro_versions", "avro_keys", "key_texts"):
        if mode == "upsert" or "key" not in module:
            shutil.copy(HERE / f"{module}.py", target)
    if wire == "confluent":
        shutil.copy(HERE / "avro_resolution.py", target)
        (target / "registry.py").write_text(REGISTRY)
    shutil.copy(HERE / f"avro_wire_{wire}.py", target / "avro_wire.py")
    shutil.copy(HERE / f"tombstones_{mode}.py", target / "tombstones.py")
    shutil.copy(HERE / "decoding_avro.py", target / "decoding.py")
    schema = (target / "schema.py").read_text()
    kept = schema[schema.index("def table_columns") :]
    ours = (HERE / "schema_avro.py").read_text()
    ours = ours.replace("import json\n", "import json\nfrom collections.abc import Iterable\n", 1)
    ours = ours.replace(
        "from .settings import Topic\n",
        "from .settings import Topic\nfrom .shapes import RESERVED\n",
    )
    (target / "schema.py").write_text(ours + "\n\n" + kept)
    with (target / "reasons.py").open("a") as file:
        file.write(REASONS)
    settings = (target / "settings.py").read_text()
    settings = settings.replace('Literal["string", "json"]', 'Literal["string", "json", "avro"]')
    settings = settings.replace(".ddl", ".avsc")
    (target / "settings.py").write_text(settings)
    rows = (target / "rows.py").read_text()
    rows = re.sub(r"\n\ndef make_tombstone_decoder.*", "\n", rows, flags=re.DOTALL)
    rows = re.sub(r"import pyarrow.*\n|from .decode .*\n|from .keys .*\n", "", rows)
    (target / "rows.py").write_text(rows)
    for gone in (
        "arrow",
        "decode",
        "json_columns",
        "json_types",
        "keys",
        "rejects",
        "pipeline",
        "columns",
        "streams",
        "backfill",
        "doctor",
        "cli",
        "__main__",
    ):
        (target / f"{gone}.py").unlink(missing_ok=True)
    return name


def build_all(root: Path) -> None:
    """All four, importable."""
    for wire in ("bare", "confluent"):
        for mode in ("append", "upsert"):
            build(root, wire, mode)
    sys.path.insert(0, str(root))
    importlib.invalidate_caches()
