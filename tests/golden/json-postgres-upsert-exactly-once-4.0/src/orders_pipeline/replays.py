"""The newest batch that the table has, compared with the one that the checkpoint plans."""

from typing import Any

from .batch import Batch, command_to_go_on
from .errors import RefusedError
from .settings import Topic


def check_same(label: dict[str, Any], batch: Batch, topic: Topic) -> None:
    """Sees that the newest batch in the table, with this ``label``, is ``batch``, whole.

    Raises:
        RefusedError: it was written, but with other records or under another schema than the
            checkpoint plans now; to skip it would lose the difference.
    """
    planned = batch.label()
    if label["ends"] != planned["ends"] or label["batch"] > batch.id:
        raise RefusedError(
            f"Batch {batch.id} of {topic.name} is in the table {topic.location} up to the offsets "
            f"{label['ends']}, but the checkpoint {topic.checkpoint} plans it up to "
            f"{planned['ends']}: some of it was lost. Nothing was written. Remove that folder and "
            f"go on where the table ends: {command_to_go_on(topic.name, label['ends'])}"
        )
    check_schema(label["schema"], batch, topic)


def check_schema(schema: str, batch: Batch, topic: Topic) -> None:
    """Sees that what was written of a batch was read with the ``schema`` that it is read with now.

    Raises:
        RefusedError: it was not; to skip it would lose what can be read in it only now.
    """
    if schema != batch.schema:
        raise RefusedError(
            f"{topic.schema_path}, or a setting of how values are decoded, changed while batch "
            f"{batch.id} of {topic.name} was written but not committed, so what can be read in it "
            "only now would be lost. Nothing was written. Put it back, run until the batch is "
            "committed, then change it."
        )


def check_follows(newest: int | None, batch: Batch, topic: Topic) -> None:
    """Sees that the table has lost no batch before ``batch``: its ``newest`` is the one before.

    Every batch leaves its number there, also an empty one; before the first there is none.

    Raises:
        RefusedError: it has lost some, under this run: a server that was behind took over.
    """
    if (batch.first - 1 if newest is None else newest) < batch.id - 1:
        raise RefusedError(
            f"The table {topic.location} was set back under this run: its newest batch is "
            f"{newest}, and the next was to be {batch.id}. Nothing of that was written. Start "
            "again: the start says how to go on."
        )
