"""How a batch's rows get into the output topic: in transactions for each source partition."""

import json

from pyspark.sql import DataFrame

from . import kafka, kafka_topics, positions
from .batch import Batch, Written
from .counting import every, observe
from .delivery import AFTER_A_FAILURE, as_refused, refused_by
from .errors import BatchError, RefusedError
from .placing import placed
from .settings import Topic
from .transactions import FENCED, SENT, TIMEOUT_S, Work, sender


def produce(records: DataFrame, batch: Batch, topic: Topic) -> Written:
    """Sends those *output records* (``sink.py``) of a batch that the output topic has not yet.

    Raises:
        RefusedError: another process sends rows under this checkpoint.
        BatchError: a partition's rows could not be sent; what others sent is not sent again.
    """
    held = positions.held(topic, batch)
    waiting = positions.behind(held, batch)
    counted, counts = observe(records, received=every())
    limit_bytes = kafka_topics.max_message_bytes(topic.settings, topic.location)
    works = [_work(partition, batch, topic, limit_bytes) for partition in waiting]
    sent = placed(counted, waiting).mapInArrow(sender(works), SENT).collect()
    for row in sent:
        if row.problem is not None:
            raise _error(row.partition, row.code, row.problem, batch, topic)
    refused = refused_by(batch, {p: each for p, each in held.items() if p not in waiting})
    # Of the others, the brokers may take a moment to show what was just committed.
    for row in sent:
        refused += as_refused(row.partition, json.loads(row.refused))
    received, written = int(counts.get["received"]), sum(row.written for row in sent)
    return Written(
        received=received,
        written=written,
        skipped=received - written - len(refused),
        refused=refused,
    )


def _work(partition: int, batch: Batch, topic: Topic, limit_bytes: int) -> Work:
    return Work(
        client=kafka.client_options(topic.settings.kafka.bootstrap_servers),
        # The same in all processes of a checkpoint: the newest ends the others' transactions.
        transactional_id=f"{topic.settings.name}-{topic.name}-{partition}-{batch.pipeline}",
        group=positions.group(topic),
        source=topic.name,
        partition=partition,
        end=batch.ends[partition],
        pipeline=batch.pipeline,
        batch=batch.id,
        schema=batch.schema,
        limit_bytes=limit_bytes,
    )


def _error(
    partition: int, code: int, problem: str, batch: Batch, topic: Topic
) -> RefusedError | BatchError:
    of = f"batch {batch.id} of {topic.name}, partition {partition}"
    if code in FENCED:
        return RefusedError(
            f"Another process sends the rows of {topic.name} to {topic.location} under the "
            f"checkpoint {topic.checkpoint}, so this one was shut out, or its transaction was open "
            f"for longer than {TIMEOUT_S} s: of {of}, what it had in hand was rolled back. Let one "
            "process run for each checkpoint; if there is but one, see why the brokers take rows "
            "so slowly, then start again."
        )
    return BatchError(
        f"The rows of {of}, could not be sent to {topic.location}: {problem}. What it had in hand "
        "was rolled back; what other partitions sent is there and is not sent again. Mend the "
        f"topic or the brokers, then {AFTER_A_FAILURE}."
    )
