"""Stops the query when so many records are rejected that the schema must be wrong."""

from .batch import Balance
from .errors import BreakerTripped
from .settings import Topic


def check(balance: Balance, topic: Topic) -> None:
    """Judges a complete batch.

    Raises:
        BreakerTripped: more records were rejected than the settings allow, by ratio and by count.
    """
    limits = topic.settings.breaker
    rejected = balance.dead_lettered + balance.logged
    if rejected < limits.min_rejected or rejected <= limits.max_rejected_ratio * balance.read:
        return
    if balance.logged:
        letters = f"{balance.logged} of them are only in the log"
        command = f"backfill {topic.name}, from the offsets that the log names"
    else:
        letters = f"its dead letters are in {topic.dead_letters}, with their reasons"
        command = f"replay {topic.name}"
    raise BreakerTripped(
        f"{rejected} of {balance.read} records in batch {balance.batch} of {topic.name} were "
        f"rejected, more than breaker.max_rejected_ratio = {limits.max_rejected_ratio}. The batch "
        f"is complete: {letters}. Compare {topic.schema_path} with a few of them, correct it, "
        f"start again, then bring them back with: {command}"
    )
