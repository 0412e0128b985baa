"""A real S3 server for tests and the demo: moto's, in this process. Nothing goes to Amazon's."""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import boto3
from moto.server import ThreadedMotoServer

from .kafka_jvm import say

BUCKET = "tests"
HOST = "127.0.0.1"


class ObjectStore:
    """The server and its bucket; what it holds outlives a stop."""

    bucket = f"s3a://{BUCKET}"

    def __init__(self) -> None:
        self._port = 0
        self.start()

    def start(self) -> None:
        """Lets it answer, where it answered before."""
        self._server = ThreadedMotoServer(ip_address=HOST, port=self._port, verbose=False)
        self._server.start()
        _, self._port = self._server.get_host_and_port()

    def stop(self) -> None:
        """Lets it answer no more."""
        self._server.stop()

    @property
    def url(self) -> str:
        """Where it answers."""
        return f"http://{HOST}:{self._port}"


@contextmanager
def start_object_store() -> Iterator[ObjectStore]:
    """A server with an empty bucket, stopped at the end of the block.

    The variables by which the AWS SDKs find it are set for it, also those of your own.
    """
    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # which logs each request
    store = ObjectStore()
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN"):
        os.environ.pop(name, None)
    os.environ |= {
        "AWS_ENDPOINT_URL_S3": store.url,
        "AWS_ACCESS_KEY_ID": "tests",
        "AWS_SECRET_ACCESS_KEY": "tests",
        "AWS_REGION": "us-east-1",
    }
    say(f"An S3 server runs at {store.url} ...")
    try:
        client().create_bucket(Bucket=BUCKET)
        yield store
    finally:
        store.stop()


def client() -> Any:
    """A client of the server."""
    return boto3.client("s3", region_name=os.environ["AWS_REGION"])
