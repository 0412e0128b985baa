"""A rendered repository that runs: its jars fetched, its package and its tests' broker at hand."""

import fcntl
import hashlib
import importlib
import importlib.util
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import prometheus_client

from rendering import MATRIX, ROOT, compile_protos, render

CACHE = Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "template-tests"
TIMEOUT_S = 1500
OUTSIDE = dict(os.environ)
"""As it was before any variant was made ready to run: one's jars are not another's."""


@dataclass(frozen=True)
class Repository:
    """A rendered repository, its package imported here and in Spark's workers.

    What it imports has no types here: there is no such package before a test has made it.
    """

    path: Path
    package: str
    jars: Path

    def module(self, name: str) -> Any:
        """A module of its package."""
        return importlib.import_module(f"{self.package}.{name}")

    def support(self, name: str) -> Any:
        """A module of its ``tests/support``: each repository has its own under the same name."""
        package = sys.modules.get("tests.support")
        if package is None or package.__file__ != str(self.path / "tests/support/__init__.py"):
            for loaded in [module for module in sys.modules if module.split(".")[0] == "tests"]:
                del sys.modules[loaded]
            sys.path.remove(str(self.path))
            sys.path.insert(0, str(self.path))
        return importlib.import_module(f"tests.support.{name}")

    def settings(
        self, folder: Path, bootstrap_servers: str, topic: str, ddl: str, **changes: Any
    ) -> Any:
        """Its settings for one topic that exists, with table, checkpoint and schema in *folder*.

        A dictionary among *changes* changes a section, anything else replaces a setting.
        """
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{topic}.ddl").write_text(ddl)
        general: dict[str, Any] = {
            "name": topic,
            "topics": [topic],
            "trigger": "availableNow",
            "checkpoint_location": str(folder / "checkpoints"),
            "schemas": folder,
            "kafka": {"bootstrap_servers": bootstrap_servers},
        }
        if "location" in self.module("settings").TableSettings.model_fields:
            general["table"] = {"location": str(folder / "tables")}
        for name, value in changes.items():
            section = general.get(name)
            general[name] = section | value if isinstance(section, dict) else value
        return self.module("settings").Settings(**general)

    def environment(self, settings: Any) -> dict[str, str]:
        """What gives a process of its own the same settings."""
        given = settings.model_dump(mode="json", exclude_none=True)
        texts = {name: v if isinstance(v, str) else json.dumps(v) for name, v in given.items()}
        ours = {f"PIPELINE_{name.upper()}": text for name, text in texts.items()}
        source = {"PYTHONPATH": str(self.path / "src"), "PIPELINE_JARS": str(self.jars)}
        return {**os.environ, **source, **ours}


def render_to_run(folder: Path, name: str, **answers: Any) -> Repository:
    """Renders a variant under *folder* as the project *name* and makes it ready to run.

    Call it for every variant of a process before the first Spark session there: the workers get
    their import path from the environment that the session starts in.
    """
    path = render(folder / name, project_name=name, **answers)
    repository = Repository(path, name.replace("-", "_"), jars_of(path))
    sys.path[:0] = [str(path / "src"), str(path)]
    sources = [str(path / "src"), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, sources))
    os.environ["PIPELINE_JARS"] = str(repository.jars)
    if answers.get("value_format") == "protobuf":
        compile_protos(path)
    _import_metrics(repository.package)
    return repository


def run(command: list[str], folder: Path, **environment: str) -> str:
    """Runs a command in a rendered repository and returns what it printed."""
    done = subprocess.run(
        command,
        cwd=folder,
        env=OUTSIDE | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-8000:]
    return done.stdout


def run_own_tests(repository: Path, *arguments: str, **environment: str) -> str:
    """Runs a rendered repository's own tests, as ``pytest arguments`` would; what that printed."""
    return run(
        [python_for(repository), "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments],
        repository,
        PYTHONPATH=str(repository / "src"),
        PIPELINE_JARS=str(jars_of(repository)),
        **environment,
    )


def end_session(spark: Any) -> None:
    """Stops the session and ends its JVM, so that the next one in this process imports its own."""
    from pyspark import SparkContext

    spark.stop()
    gateway = SparkContext._gateway
    assert gateway
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(60)
    SparkContext._gateway = SparkContext._jvm = None


def _import_metrics(package: str) -> None:
    """Two packages in one process name the same counters, so each gets a registry of its own."""
    registry = prometheus_client.CollectorRegistry()
    kinds = {
        name: partial(getattr(prometheus_client, name), registry=registry)
        for name in ("Counter", "Gauge")
    }
    with mock.patch.multiple(prometheus_client, **kinds):  # type: ignore[call-overload]
        importlib.import_module(f"{package}.metrics")


def python_for(repository: Path) -> str:
    """The interpreter that has the Spark that a repository pins: this one, or one made for it.

    The one that is made has all that this one has, but for that Spark; variants share it.
    """
    project = (ROOT / "pyproject.toml").read_text()
    [pinned] = re.findall(r'"pyspark==(.+)"', (repository / "pyproject.toml").read_text())
    if f'"pyspark=={pinned}"' in project:
        return sys.executable
    [line] = [line for line in MATRIX["spark"].values() if line["pyspark"] == pinned]
    others = f"pyspark=={pinned}\ndelta-spark=={line['delta']}\n"
    name = hashlib.sha256(f"{sys.version}{project}{others}".encode()).hexdigest()[:12]
    folder = CACHE / f"python-{name}"
    if not (folder / ".complete").exists():
        with alone(CACHE / "lock"):
            if not (folder / ".complete").exists():
                _make_environment(folder, others)
    return str(folder / "bin/python")


def _make_environment(folder: Path, others: str) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    overrides = folder.with_suffix(".txt")
    overrides.write_text(others)
    install = ["uv", "pip", "install", "--quiet", "--python", str(folder)]
    run(["uv", "venv", "--quiet", "--clear", "--python", sys.executable, str(folder)], ROOT)
    run([*install, "--group", "dev", "--overrides", str(overrides)], ROOT)
    (folder / ".complete").touch()


def jars_of(repository: Path) -> Path:
    """The jars that ``make jars`` fetches, in a folder that all variants with the same share."""
    listed = (repository / "jars.xml").read_bytes()
    folder = CACHE / f"jars-{hashlib.sha256(listed).hexdigest()[:12]}"
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / ".resolved").exists():
        with alone(CACHE / "lock"):
            if not (folder / ".resolved").exists():
                _fetch(repository, folder)
    return folder


@contextmanager
def alone(lock: Path) -> Iterator[None]:
    """Lets one test process in at a time: it makes what they share, the others find it made."""
    with lock.open("w") as opened:
        fcntl.flock(opened, fcntl.LOCK_EX)
        yield


def _fetch(repository: Path, folder: Path) -> None:
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None
    [ivy] = Path((spec.submodule_search_locations or [])[0]).glob("jars/ivy-*.jar")
    java = f"{os.environ['JAVA_HOME']}/bin/java" if os.environ.get("JAVA_HOME") else "java"
    options = {
        "-settings": "ivysettings.xml",
        "-ivy": "jars.xml",
        "-confs": "default",
        "-retrieve": f"{folder}/[artifact]-[revision].[ext]",
    }
    command = [java, "-jar", str(ivy), *(word for option in options.items() for word in option)]
    done = subprocess.run(command, cwd=repository, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"
    (folder / ".resolved").touch()
