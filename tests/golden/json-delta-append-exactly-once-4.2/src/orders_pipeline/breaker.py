"""Stops the query when so many records are rejected that the schema must be wrong."""

from .batch import Balance
from .errors import BreakerTripped
from .reasons import Reason
from .settings import Topic

ADVICE: dict[str, str] = {
    Reason.FRAMED: "These bear a schema registry's header, and this pipeline was made for bare "
    "values: uvx copier update --data schema_registry=confluent",
}
"""What to change where most were rejected for one of these reasons."""


def check(balance: Balance, topic: Topic, reason: str | None) -> None:
    """Judges a complete batch, of whose rejected records *reason* is the most frequent one.

    Raises:
        BreakerTripped: more records were rejected than the settings allow, by ratio and by count.
    """
    limits = topic.settings.breaker
    rejected = balance.dead_lettered + balance.logged
    if rejected < limits.min_rejected or rejected <= limits.max_rejected_ratio * balance.read:
        return
    advice = ADVICE.get(reason or "", f"Compare {topic.schema_path} with a few of them, correct it")
    if balance.logged:
        letters = f"{balance.logged} of them are only in the log"
        command = f"backfill {topic.name}, from the offsets that the log names"
    else:
        letters = f"its dead letters are in {topic.dead_letters}, with their reasons"
        command = f"replay {topic.name}"
    raise BreakerTripped(
        f"{rejected} of {balance.read} records in batch {balance.batch} of {topic.name} were "
        f"rejected, most of them as {reason}, more than breaker.max_rejected_ratio = "
        f"{limits.max_rejected_ratio}. The batch is complete: {letters}. {advice}, start again, "
        f"then bring them back with: {command}"
    )
