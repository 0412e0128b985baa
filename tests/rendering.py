"""Renders the template as a user would, from the work tree with what is not committed yet."""

import atexit
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import copier
import jinja2
import yaml

ROOT = Path(__file__).resolve().parent.parent
MATRIX: dict[str, Any] = yaml.safe_load((ROOT / "hooks/matrix.yml").read_text())

Answers = dict[str, Any]
SHOWN = ["value_format", "sink", "write_mode", "delivery_guarantee", "spark_version"]
"""What a variant is called by, with its schema registry, its object store and the schema of its
output if it has them."""
IN_TURN = ("value_format", "schema_registry", "delivery_guarantee")
"""By which the format of an output topic takes turns, so that each is there with each of these."""


def _compile_once() -> None:
    """Has Jinja compile a template once for all copies of a process: two thirds of their time."""
    compile_it = jinja2.Environment.compile
    known: dict[tuple[Any, ...], Any] = {}

    def compiled(
        self: jinja2.Environment, source: Any, name: Any = None, filename: Any = None, *others: Any
    ) -> Any:
        self.preprocess(source, name, filename)  # by which copier forgets the last path's yield
        key = (source, name, filename, *others)
        if key not in known:
            known[key] = compile_it(self, *key)
        return known[key]

    jinja2.Environment.compile = compiled  # type: ignore[assignment, method-assign]


_compile_once()


@cache
def snapshot() -> Path:
    """A copy of what git would commit of the work tree, without history: copier takes it as it is.

    Left to itself copier clones the repository for each copy, which takes half of the time.
    """
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
        text=True,
    ).stdout
    copy = Path(tempfile.mkdtemp(prefix="template-"))
    atexit.register(shutil.rmtree, copy, ignore_errors=True)
    for name in listed.split("\0"):
        if name.startswith(("template/", "hooks/", "copier.yml")) and (ROOT / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, copy / name)
    return copy


def render(dest: Path, **answers: Any) -> Path:
    """Copies the template to *dest*, untrusted, with these answers and the defaults for the rest.

    Raises:
        ValueError: an answer is refused; the message is what a user sees.
    """
    copier.run_copy(
        str(snapshot()), dest, data=answers, defaults=True, quiet=True, unsafe=False, overwrite=True
    )
    return dest


def compile_protos(repository: Path) -> None:
    """What ``make protos`` does."""
    sources = sorted(map(str, repository.glob("schemas/*.proto")))
    subprocess.run(
        [sys.executable, "scripts/compile_protos.py", *sources],
        cwd=repository,
        env={**os.environ, "PYTHONPATH": str(repository / "src")},
        check=True,
    )


def choices(question: str) -> list[str]:
    """The answers on offer, the default first."""
    return list(MATRIX["answers"][question].values())


def is_refused(answers: Answers) -> bool:
    """Whether a rule of the matrix forbids these answers together."""
    return any(rule["answers"].items() <= answers.items() for rule in MATRIX["refused"])


def usual_spark(answers: Answers) -> str:
    """The first Spark version on offer that goes with the other answers: the one it is run on."""
    versions = choices("spark_version")
    return next(v for v in versions if not is_refused({**answers, "spark_version": v}))


def variants() -> Iterator[Answers]:
    """Every valid combination of the answers that change what a repository does.

    The trigger and the CI, which change a line and a file, and the storage and the format of an
    output topic, which go with every other answer, take turns instead of multiplying.
    """
    questions = [*SHOWN, "schema_registry"]
    ci = choices("ci")
    for number, values in enumerate(product(*map(choices, questions))):
        answers: Answers = dict(zip(questions, values, strict=True))
        if is_refused(answers):
            continue
        answers["trigger"] = ["30 seconds", "availableNow"][number % 2]
        answers["ci"] = ci[number % len(ci)]
        if answers["write_mode"] == "upsert":
            answers["key_columns"] = [["id"], ["customer_id", "order_id"]][number // 2 % 2]
        answers["storage"] = choices("storage")[number // 5 % 4]
        if is_refused(answers):
            answers["storage"] = choices("storage")[0]
        if answers["sink"] == "kafka":
            turns = (choices(each).index(answers[each]) for each in IN_TURN)
            answers["output_format"] = choices("output_format")[sum(turns) % 3]
        answers["topics"] = [["orders"], ["orders.v1", "Refunds-2"]][number // 3 % 2]
        yield answers


def name_of(answers: Answers) -> str:
    """A variant's name: of a test, of a golden tree."""
    shown = [str(answers[question]) for question in SHOWN]
    if answers["schema_registry"] != "none":
        shown.insert(1, answers["schema_registry"])
    if answers["storage"] != choices("storage")[0]:
        shown.append(answers["storage"])
    if answers.get("output_format", "json") != "json":
        shown.append(f"to-{answers['output_format']}")
    return "-".join(shown)


if __name__ == "__main__":
    print(*map(name_of, variants()), sep="\n")
