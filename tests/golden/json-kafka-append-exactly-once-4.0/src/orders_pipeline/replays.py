"""The newest batch that the table has, compared with the one that the checkpoint plans."""

from .batch import Batch
from .errors import RefusedError
from .settings import Topic


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
