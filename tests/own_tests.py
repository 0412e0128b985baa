"""Runs the own tests of one rendered repository after another, in one process with one JVM.

To start a JVM and to warm it takes longer than the tests of most variants. A schema registry and a
database are shared too. What all variants have under the same name is put away between two: the
package, ``tests``, the counters, the path that Spark's workers import from, and the package's
clients of brokers, whose threads would go on asking for brokers that are gone.
"""

import contextlib
import gc
import importlib
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest


class OwnTests:
    """A process that runs the own tests of repositories; they all need the same jars and Python."""

    def __init__(self, python: str, jars: Path, bootstrap_servers: str, log: Path) -> None:
        self._log = log
        self._process = subprocess.Popen(
            [python, __file__],
            env=os.environ
            | {
                "PIPELINE_JARS": str(jars),
                "KAFKA_BROKER": bootstrap_servers,
                "PYTHONPATH": "",
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log.open("w"),
            text=True,
        )

    def run(self, repository: Path, *arguments: str) -> str:
        """Runs its tests, as ``pytest arguments`` would; returns what that printed.

        Raises:
            AssertionError: a test failed, or the process has ended.
        """
        assert self._process.stdin
        assert self._process.stdout
        request = {"repository": str(repository), "arguments": arguments}
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, f"the process has ended: {self._log.read_text()[-5000:]}"
        code, printed = json.loads(answer)
        assert code == 0, printed[-8000:]
        return str(printed)

    def close(self) -> None:
        """Ends the process, and its JVM."""
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait(60)


def _start_jvm() -> Any:
    """The JVM that all sessions of this process share, with the jars on its own path."""
    from pyspark import SparkContext

    if SparkContext._jvm:
        return SparkContext._jvm
    jars = ",".join(map(str, Path(os.environ["PIPELINE_JARS"]).glob("*.jar")))
    others = os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell")  # of a service that was started
    os.environ["PYSPARK_SUBMIT_ARGS"] = f"--jars {jars} {others}"
    SparkContext._ensure_initialized()
    return SparkContext._jvm


def _run(repository: Path, arguments: list[str]) -> int:
    source = str(repository / "src")
    os.chdir(repository)
    os.environ["PYTHONPATH"] = source
    sys.path[:0] = [source, str(repository)]
    try:
        _share_services(repository)
        # Each session's workers import from where the environment of its own says.
        jvm = _start_jvm()
        jvm.java.lang.System.setProperty("spark.executorEnv.PYTHONPATH", source)
        return pytest.main([*arguments, "-q", "-p", "no:cacheprovider", "--rootdir=."])
    finally:
        del sys.path[:2]
        _put_away(repository)


_until_the_end = contextlib.ExitStack()


def _share_services(repository: Path) -> None:
    """Starts what the first repository needs that needs one, for it and for all after it."""
    for name, service in (("SCHEMA_REGISTRY_URL", "registry"), ("DATABASE_URL", "database")):
        if name not in os.environ and (repository / f"tests/support/{service}.py").exists():
            support = importlib.import_module(f"tests.support.{service}")
            starting = getattr(support, f"start_{service}")()
            os.environ[name] = _until_the_end.enter_context(starting).url


def _put_away(repository: Path) -> None:
    from prometheus_client import REGISTRY

    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None) or "").startswith(str(repository)):
            for kept in vars(module).values():
                if hasattr(kept, "cache_clear"):
                    kept.cache_clear()
            del sys.modules[name]
    for collector in list(REGISTRY._collector_to_names):
        REGISTRY.unregister(collector)
    gc.collect()


def main() -> None:
    """Answers each line of standard input with a line: the exit code and what was printed."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever else prints
    with _until_the_end:
        for line in sys.stdin:
            request = json.loads(line)
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                code = _run(Path(request["repository"]), request["arguments"])
            answers.write(json.dumps([int(code), printed.getvalue()]) + "\n")
            answers.flush()


if __name__ == "__main__":
    main()
