"""A checkpoint, its topic and its table: what is refused when they no longer belong together."""

import json
import threading
import uuid

import pytest

from orders_pipeline import backfill, kafka, losses, streams, table
from orders_pipeline.checkpoint import Checkpoint
from orders_pipeline.errors import RefusedError

from tests.support.objects import copy, remove
from tests.support.pipeline import DDL, MakePipeline, Pipeline, bad, event
from tests.support.tables import drop_table, read_table
from tests.support.topics import create_topic, delete_topic


def forget(pipeline: Pipeline, *names: str) -> None:
    """Loses files of the checkpoint, as a store that lost its newest writes."""
    remove(pipeline.topic.checkpoint, *names)


def ids(pipeline: Pipeline) -> list[str]:
    return [row.id for row in pipeline.rows()]


def recreate_topic(pipeline: Pipeline) -> None:
    """The topic is made anew, with 8 records under the same offsets as the old ones."""
    delete_topic(pipeline.bootstrap_servers, pipeline.topic.name)
    create_topic(pipeline.bootstrap_servers, pipeline.topic.name, 2)
    pipeline.send(*(event(f"new{n}", n) for n in range(8)))


def restore_to_before_the_second_batch(pipeline: Pipeline) -> None:
    """Sends ``a``, then ``b``, in a batch each, and takes the second from the table (RESTORE)."""
    pipeline.send(event("a", 1))
    pipeline.drain()
    kept = table.commits(pipeline.spark, pipeline.topic)[0].version
    pipeline.send(event("b", 2))
    pipeline.drain()
    table.open_table(pipeline.spark, pipeline.topic).restoreToVersion(kept)


def test_recreated_topic_is_refused(make: MakePipeline) -> None:
    """Read: 5 records; the topic is made anew with 8. Expected: a refusal, not 3 of the 8."""
    pipeline = make()
    pipeline.send(*(event(f"old{n}", n) for n in range(5)))
    pipeline.drain()
    recreate_topic(pipeline)

    with pytest.raises(RefusedError, match="was recreated"):
        pipeline.drain()

    remove(pipeline.topic.checkpoint)
    pipeline.drain(rebind=True)
    assert {f"new{n}" for n in range(8)} <= set(ids(pipeline))


@pytest.mark.parametrize("replaced", ["topic", "table"])
def test_what_is_replaced_under_a_running_stream_is_refused_in_its_next_batch(
    make: MakePipeline, monkeypatch: pytest.MonkeyPatch, replaced: str
) -> None:
    """Sent: three batches of one record; after the first, the topic is made anew or the table goes.

    Expected: a refusal in the second batch, before it writes anything.
    """
    pipeline = make(kafka={"max_offsets_per_trigger": 1})
    pipeline.send(*(event(f"old{n}", n) for n in range(3)))

    def replace(*ignored: object) -> None:
        if replaced == "table":
            drop_table(pipeline.spark, pipeline.topic)
        else:
            recreate_topic(pipeline)

    monkeypatch.setattr(kafka, "publish_progress", replace)
    with pytest.raises(RefusedError, match=r"was recreated|is gone"):
        pipeline.drain()

    assert len(pipeline.balances) == 1
    assert table.exists(pipeline.spark, pipeline.topic) == (replaced == "topic")


def test_new_checkpoint_over_a_table_that_was_fed_is_refused(make: MakePipeline) -> None:
    """The checkpoint is lost, the table kept. Expected: a refusal that says where to go on."""
    pipeline = make()
    pipeline.send(event("a", 1), event("b", 2, partition=1))
    pipeline.drain()
    remove(pipeline.topic.checkpoint)
    pipeline.send(event("c", 3))

    with pytest.raises(RefusedError, match="is new, but the table") as refused:
        pipeline.drain()

    ends = json.dumps({"0": 1, "1": 1})
    assert f"PIPELINE_KAFKA__STARTING_OFFSETS='{ends}'" in str(refused.value)
    kafka = pipeline.settings.kafka.model_copy(update={"starting_offsets": ends})
    pipeline.settings = pipeline.settings.model_copy(update={"kafka": kafka})
    pipeline.drain(rebind=True)
    assert sorted(ids(pipeline)) == ["a", "b", "c"]


def test_checkpoint_that_comes_back_after_another_fed_the_table_is_refused(
    make: MakePipeline,
) -> None:
    """Its folder is away during one run, which goes on in another as the refusal says."""
    pipeline = make()
    pipeline.send(event("a", 1))
    pipeline.drain()
    first = pipeline.settings
    kafka = first.kafka.model_copy(update={"starting_offsets": '{"0": 1, "1": 0}'})
    away = {"checkpoint_location": f"{first.checkpoint_location}-2", "kafka": kafka}
    pipeline.settings = first.model_copy(update=away)
    pipeline.send(event("b", 2))
    pipeline.drain(rebind=True)
    pipeline.drain()
    pipeline.settings = first

    with pytest.raises(RefusedError, match="was fed by another checkpoint") as refused:
        pipeline.drain()

    assert 'STARTING_OFFSETS=\'{"0": 2, "1": 0}\'' in str(refused.value)
    assert ids(pipeline) == ["a", "b"]
    pipeline.send(event("c", 3))
    pipeline.drain(rebind=True)
    pipeline.drain()
    assert "c" in ids(pipeline)


def test_backfill_from_a_recreated_topic_is_refused(make: MakePipeline) -> None:
    """Its offsets mean other records than those that the table's rows are known by."""
    pipeline = make()
    pipeline.send(*(event(f"old{n}", n) for n in range(5)))
    pipeline.drain()
    recreate_topic(pipeline)

    with pytest.raises(RefusedError, match="was recreated"):
        backfill.backfill(pipeline.spark, pipeline.topic, {0: 0, 1: 0}, None)

    assert len(ids(pipeline)) == 5


def test_two_lost_checkpoints_are_bound_one_by_one_as_the_refusals_say(make: MakePipeline) -> None:
    """Each topic goes on at its own offsets, though the setting that names them is one for both."""
    one, two = names = [f"{number}-{uuid.uuid4().hex[:8]}" for number in ("one", "two")]
    pipeline = make(topics=names)

    def send(topic: str, *keys: str) -> None:
        pipeline.send(*(event(key, 1) for key in keys), topic=topic)

    def run(rebind: list[str], starting_offsets: str = "earliest") -> None:
        kafka = {"starting_offsets": starting_offsets}
        settings = pipeline.settings.model_copy(
            update={"kafka": pipeline.settings.kafka.model_copy(update=kafka)}
        )
        streams.run(pipeline.spark, settings, threading.Event(), rebind)

    send(one, "a", "b", "c")
    send(two, "a")
    run([])
    remove(pipeline.settings.checkpoint_location)
    send(one, "d")
    send(two, "b")

    with pytest.raises(RefusedError, match=f"--rebind {one}"):
        run([])
    with pytest.raises(RefusedError, match=f"--rebind {two}"):
        run([one], '{"0": 3, "1": 0}')
    run([two], '{"0": 1, "1": 0}')

    for topic, expected in ((one, ["a", "b", "c", "d"]), (two, ["a", "b"])):
        held = read_table(pipeline.spark, pipeline.settings.topic_settings(topic))
        assert sorted(row.id for row in held) == expected


def test_replaced_table_is_refused(make: MakePipeline) -> None:
    """The table is dropped between two runs. Expected: a refusal; once accepted, it goes on."""
    pipeline = make()
    pipeline.send(event("a", 1))
    pipeline.drain()
    drop_table(pipeline.spark, pipeline.topic)
    pipeline.send(event("b", 2))

    with pytest.raises(RefusedError, match="is gone"):
        pipeline.drain()

    pipeline.drain(rebind=True)
    assert ids(pipeline) == ["b"]


def test_batch_without_rows_counts_as_written(make: MakePipeline) -> None:
    """Bad records alone come in two batches. Expected: what follows is not refused for it."""
    pipeline = make()
    for record in (event("a", 1), bad("x"), bad("y"), event("b", 2)):
        pipeline.send(record)
        pipeline.drain()

    assert ids(pipeline) == ["a", "b"]


def test_restored_table_is_refused(make: MakePipeline) -> None:
    """A RESTORE takes a batch away, but Delta still counts it as written (delta#1813)."""
    pipeline = make()
    restore_to_before_the_second_batch(pipeline)

    with pytest.raises(RefusedError, match="was restored to version") as refused:
        pipeline.drain()
    assert '--from-offsets \'{"0": 1, "1": 0}\'' in str(refused.value)

    pipeline.send(event("c", 3))
    pipeline.drain(rebind=True)
    pipeline.drain()
    assert ids(pipeline) == ["a", "c"]
    backfill.backfill(pipeline.spark, pipeline.topic, {0: 1, 1: 0}, {0: 2, 1: 0})
    assert ids(pipeline) == ["a", "b", "c"]


def test_batch_that_a_restore_took_is_written_again_when_it_is_replayed(make: MakePipeline) -> None:
    """The RESTORE takes the commit of a batch that Spark then runs again under the same number."""
    pipeline = make()
    restore_to_before_the_second_batch(pipeline)
    forget(pipeline, "commits/1")

    pipeline.drain(rebind=True)

    assert ids(pipeline) == ["a", "b"]


def test_batch_that_came_after_a_restore_is_not_written_again(
    make: MakePipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A RESTORE under a running job, then a batch, which ends before Spark has committed it."""
    pipeline = make()
    restore_to_before_the_second_batch(pipeline)
    pipeline.send(event("c", 3))
    with monkeypatch.context() as patch:
        for looked_for_at_a_start in ("of_table", "set_back"):
            patch.setattr(losses, looked_for_at_a_start, lambda *ignored: None)
        pipeline.drain()
    forget(pipeline, "commits/2")
    with pytest.raises(RefusedError, match="was restored to version"):
        pipeline.drain()

    pipeline.drain(rebind=True)

    assert ids(pipeline) == ["a", "c"]


def test_checkpoint_that_was_set_back_is_refused(make: MakePipeline) -> None:
    """A backup of it is put back, two batches older than the table. Expected: where to go on."""
    pipeline = make()
    pipeline.send(event("a", 1))
    pipeline.drain()
    backup = f"{pipeline.topic.checkpoint}.backup"
    copy(pipeline.topic.checkpoint, backup)
    for n, key in enumerate("bc"):
        pipeline.send(event(key, n))
        pipeline.drain()
    remove(pipeline.topic.checkpoint)
    copy(backup, pipeline.topic.checkpoint)
    pipeline.send(event("d", 4))

    with pytest.raises(RefusedError, match=r"has batch 2 of it, up to the offsets {.*0': 3"):
        pipeline.drain()
    assert ids(pipeline) == ["a", "b", "c"]


def test_new_checkpoint_over_a_restored_table_goes_on_where_that_one_ends(
    make: MakePipeline,
) -> None:
    """A RESTORE takes a batch away, then the checkpoint is lost: the table lacks it."""
    pipeline = make()
    restore_to_before_the_second_batch(pipeline)
    remove(pipeline.topic.checkpoint)

    with pytest.raises(RefusedError) as refused:
        pipeline.drain()

    ends = json.dumps({"0": 1, "1": 0})
    assert f"PIPELINE_KAFKA__STARTING_OFFSETS='{ends}'" in str(refused.value)


def test_checkpoint_without_a_binding_is_refused(make: MakePipeline) -> None:
    """The checkpoint has batches that no pipeline of this kind made."""
    pipeline = make()
    pipeline.send(event("a", 1))
    pipeline.drain()
    forget(pipeline, "binding.json")

    with pytest.raises(RefusedError, match="was not made by this pipeline"):
        pipeline.drain()

    checkpoint = Checkpoint(pipeline.spark, pipeline.topic.checkpoint, "another")
    with pytest.raises(RefusedError, match=r"of the topic 'another' ends: .* is another topic's"):
        checkpoint.ends(0)


def test_replay_after_a_lost_commit_gets_past_the_batch(make: MakePipeline) -> None:
    """The newest commits file is deleted: Spark runs the batch again with its old id."""
    pipeline = make()
    pipeline.send(event("a", 1), event("b", 2, partition=1))
    pipeline.drain()
    forget(pipeline, "commits/0")
    pipeline.send(event("c", 3))

    pipeline.drain()

    checkpoint = Checkpoint(pipeline.spark, pipeline.topic.checkpoint, pipeline.topic.name)
    assert checkpoint.planned() == checkpoint.committed() == 1
    assert sorted(ids(pipeline)) == ["a", "b", "c"]


def test_wider_batch_under_an_old_number_is_refused(make: MakePipeline) -> None:
    """Its offsets file is lost as well: a batch with more records is planned under its number."""
    pipeline = make()
    pipeline.send(event("a", 1))
    pipeline.drain()
    forget(pipeline, "commits/0", "offsets/0")
    pipeline.send(event("b", 2))

    with pytest.raises(RefusedError, match="some of it was lost"):
        pipeline.drain()
    assert ids(pipeline) == ["a"]


def test_changed_schema_is_refused_while_a_batch_is_in_flight(make: MakePipeline) -> None:
    """A batch is written, not committed; then the schema changes. To skip it would lose a field."""
    pipeline = make()
    pipeline.send(event("a", 1, colour="red"))
    pipeline.drain()
    forget(pipeline, "commits/0")
    pipeline.write_schema(f"{DDL}, colour STRING")

    with pytest.raises(RefusedError, match="changed while batch 0"):
        pipeline.drain()

    pipeline.write_schema(DDL)
    pipeline.drain()
    assert ids(pipeline) == ["a"]
