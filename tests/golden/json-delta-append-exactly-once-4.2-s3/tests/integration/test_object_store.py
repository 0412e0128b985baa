"""S3 where it fails: away, forbidden, without the bucket; and large files, which go up in parts."""

import json
import secrets
from typing import Any

import pytest

from orders_pipeline import sink
from orders_pipeline.errors import BatchError, StorageError
from orders_pipeline.storage import Folder

from tests.support.object_store import BUCKET, ObjectStore, client
from tests.support.pipeline import MakePipeline, Pipeline, event

DENY_WRITES = {
    "Version": "2012-10-17",
    "Statement": [
        {
            "Effect": "Deny",
            "Principal": "*",
            "Action": "s3:PutObject",
            "Resource": f"arn:aws:s3:::{BUCKET}/*",
        }
    ],
}


def ids(pipeline: Pipeline) -> list[str]:
    return [row.id for row in pipeline.rows()]


def uploads_in_parts(pipeline: Pipeline) -> int:
    """How many S3A has begun in this JVM."""
    files = Folder(pipeline.spark, pipeline.topic.location)._files
    return int(files.getStorageStatistics().getLong("object_multipart_initiated"))


def test_large_file_goes_up_in_parts_and_is_read_back(make: MakePipeline) -> None:
    """Sent: 12 MB that cannot be compressed. Expected: an upload in parts, every byte."""
    pipeline = make()
    begun = uploads_in_parts(pipeline)
    notes = [secrets.token_hex(400_000) for _ in range(30)]
    pipeline.send(*(event(f"k{n:02}", n, note=note) for n, note in enumerate(notes)))
    pipeline.drain()

    assert uploads_in_parts(pipeline) > begun
    assert {row.id: row.note for row in pipeline.rows()} == {
        f"k{n:02}": note for n, note in enumerate(notes)
    }


def test_start_is_refused_when_the_bucket_is_not_there(make: MakePipeline) -> None:
    pipeline = make(checkpoint_location="s3a://no-such-bucket/checkpoints")
    pipeline.send(event("a", 1))
    with pytest.raises(StorageError, match=r"no-such-bucket.*No batch was begun"):
        pipeline.drain()


def test_permission_that_is_lost_and_given_back_loses_nothing(make: MakePipeline) -> None:
    """The bucket takes no more objects between two batches, then it does again."""
    pipeline = make()
    pipeline.send(event("a", 1))
    pipeline.drain()
    pipeline.send(event("b", 2))
    client().put_bucket_policy(Bucket=BUCKET, Policy=json.dumps(DENY_WRITES))
    try:
        with pytest.raises((BatchError, StorageError), match="403"):
            pipeline.drain()
    finally:
        client().delete_bucket_policy(Bucket=BUCKET)
    assert ids(pipeline) == ["a"]

    pipeline.drain()
    assert ids(pipeline) == ["a", "b"]


def test_store_that_is_away_at_the_start_is_named(make: MakePipeline, store: ObjectStore) -> None:
    pipeline = make()
    pipeline.send(event("a", 1))
    store.stop()
    try:
        with pytest.raises(StorageError, match=r"cannot be used.*No batch was begun"):
            pipeline.drain()
    finally:
        store.start()

    pipeline.drain()
    assert ids(pipeline) == ["a"]


def test_store_that_goes_away_in_a_batch_is_made_up_for_by_the_next_start(
    make: MakePipeline, store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store answers no more once a batch has begun its write. Expected: each record once."""
    pipeline = make()
    pipeline.send(event("a", 1))
    pipeline.drain()
    pipeline.send(event("b", 2))
    write = sink.write

    def write_without_store(*arguments: Any) -> Any:
        store.stop()
        return write(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(sink, "write", write_without_store)
        with pytest.raises(BatchError):
            pipeline.drain()
    store.start()

    pipeline.drain()
    assert ids(pipeline) == ["a", "b"]
