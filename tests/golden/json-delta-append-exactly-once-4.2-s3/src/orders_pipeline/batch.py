"""One batch: its identity, where it ends in the topic, and where its records went."""

import json
from dataclasses import asdict, dataclass
from typing import Any

from pydantic import NonNegativeInt, TypeAdapter

Offsets = dict[int, int]
"""For each partition, an offset; as an end it is the first one that is *not* included."""
NO_BATCH = -1
"""The batch number, in the balance and in dead letters, of what a backfill or a replay took."""
_OFFSETS = TypeAdapter(dict[NonNegativeInt, NonNegativeInt])


@dataclass(frozen=True)
class Batch:
    """A batch as Spark planned it, read from the checkpoint's own log before any effect.

    A replay has the same ``id`` and, as long as the log is whole, the same ``ends``.
    """

    id: int
    ends: Offsets
    pipeline: str
    """Identity of the checkpoint that planned it: a new checkpoint is a new pipeline."""
    schema: str
    """Fingerprint of the schema that its records are decoded with."""
    first: int
    """The number of the first batch of its pipeline; where that is not known, its own."""

    def label(self) -> dict[str, Any]:
        """What identifies the batch, as JSON knows it: for a table's history or a file."""
        ends = offsets_to_json(self.ends)
        return {"pipeline": self.pipeline, "batch": self.id, "ends": ends, "schema": self.schema}


def offsets_to_json(offsets: Offsets) -> dict[str, int]:
    """Offsets with text keys, in the order of the partitions, as JSON and Spark want them."""
    return {str(partition): offsets[partition] for partition in sorted(offsets)}


def offsets_from_json(offsets: dict[str, int]) -> Offsets:
    """The reverse of ``offsets_to_json``."""
    return {int(partition): offset for partition, offset in offsets.items()}


def read_offsets(text: str) -> Offsets:
    """Offsets as a person writes them: ``{"0": 120, "1": 98}``.

    Raises:
        ValueError: the text is not that; the message says how to write it.
    """
    try:
        return _OFFSETS.validate_json(text)
    except ValueError:
        example = '{"0": 120, "1": 98}'
        raise ValueError(f"{text!r} is not offsets. Write them as {example}") from None


def command_to_go_on(topic: str, ends: dict[str, int]) -> str:
    """What to run so that a new checkpoint of the topic begins at these offsets."""
    offsets = f"PIPELINE_KAFKA__STARTING_OFFSETS='{json.dumps(ends)}'"
    return f"run --rebind {topic}, with {offsets} in the environment"


@dataclass(frozen=True)
class Written:
    """What a sink did with the rows of one batch, in rows."""

    received: int
    """Rows that came out of ``transform.py``."""
    written: int
    skipped: int = 0


@dataclass(frozen=True)
class Letters:
    """What became of the rejected records of one batch, in records."""

    stored: int = 0
    logged: int = 0


@dataclass(frozen=True)
class Balance:
    """Where the records of one batch went, in records.

    ``read`` is counted as Kafka hands the records out; the others further along. They add up
    unless a record was lost or repeated inside the program.
    """

    batch: int
    read: int
    written: int
    """Rows added to the table."""
    dead_lettered: int
    filtered: int
    """Accepted, then dropped by ``transform.py``."""
    skipped: int
    """Read, and rightly left alone: the batch was written before, or a null value means nothing."""
    logged: int = 0
    """Rejected, and only in the log: the dead-letter topic took none and the settings go on."""

    @classmethod
    def of(
        cls,
        batch: Batch,
        read: dict[str, int],
        found: dict[str, int],
        done: Written,
        letters: Letters,
    ) -> "Balance":
        """Adds up what was counted at each step (``counting.py``)."""
        return cls(
            batch=batch.id,
            read=read["read"],
            written=done.written,
            dead_lettered=letters.stored,
            logged=letters.logged,
            filtered=found["accepted"] - done.received,
            skipped=found["skipped"] + done.skipped,
        )

    @property
    def outcomes(self) -> dict[str, int]:
        """The parts that ``read`` must be the sum of."""
        counts = asdict(self)
        return {name: counts[name] for name in counts if name not in ("batch", "read")}

    @property
    def holds(self) -> bool:
        """True when every record that was read is accounted for once."""
        return self.read == sum(self.outcomes.values()) and min(self.outcomes.values()) >= 0
