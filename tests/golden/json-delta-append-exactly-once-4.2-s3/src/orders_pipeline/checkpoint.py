"""What Spark's checkpoint says, and the small files that the pipeline keeps beside it.

Layout, from Spark's ``MicroBatchExecution``: ``metadata`` holds the query's id; ``offsets/<n>`` is
written when batch n is planned, before any of its effects, and ``commits/<n>`` after all of them.
"""

import json

from pyspark.sql import SparkSession

from .batch import Offsets, offsets_from_json
from .errors import RefusedError
from .storage import Folder


class Checkpoint:
    """The checkpoint of one topic's query."""

    def __init__(self, spark: SparkSession, location: str, topic: str) -> None:
        self.location = location
        self.topic = topic
        self.files = Folder(spark, location)

    def identity(self) -> str | None:
        """The id that Spark gave the query when it first ran; None before that."""
        text = self.files.read("metadata")
        return None if text is None else str(json.loads(text)["id"])

    def planned(self) -> int | None:
        """The newest batch that was planned; None before the first."""
        return self._newest("offsets")

    def committed(self) -> int | None:
        """The newest batch whose effects are all done; None before the first."""
        return self._newest("commits")

    def ends(self, batch_id: int) -> Offsets:
        """Where batch ``batch_id`` ends: the last line of ``offsets/<n>``, a JSON map by topic.

        Raises:
            RefusedError: the checkpoint has no such batch, or not of this topic.
        """
        text = self.files.read(f"offsets/{batch_id}")
        by_topic = json.loads(text.strip().splitlines()[-1]) if text else {}
        if self.topic not in by_topic:
            raise RefusedError(
                f"The checkpoint {self.location} does not know where batch {batch_id} of the topic "
                f"{self.topic!r} ends: offsets/{batch_id} is missing or is another topic's. "
                "Nothing was written. Give the topic a checkpoint of its own, or restore that file."
            )
        return offsets_from_json(by_topic[self.topic])

    def committed_ends(self) -> Offsets | None:
        """Where the newest committed batch ends; None before the first."""
        committed = self.committed()
        return None if committed is None else self.ends(committed)

    def _newest(self, folder: str) -> int | None:
        names = self.files.names(folder)
        return max((int(name) for name in names if name.isdigit()), default=None)
