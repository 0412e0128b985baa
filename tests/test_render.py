"""Tier 2: every valid variant renders, parses, is formatted, and passes the checks it ships."""

import json
import os
import re
import subprocess
import sys
import tempfile
import tomllib
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from rendering import MATRIX, ROOT, Answers, name_of, render, snapshot, usual_spark, variants

VARIANTS = list(variants())
GOLDEN = ROOT / "tests/golden"
DEFAULT = VARIANTS[0]
LOCAL = [{**variant, "storage": "local"} for variant in VARIANTS]
GOLDEN_VARIANTS = [
    *(
        {v["value_format"]: v for v in LOCAL if v["sink"] == DEFAULT["sink"]} | {"json": DEFAULT}
    ).values(),
    *{
        v["sink"]: v
        for v in LOCAL
        if v["sink"] != DEFAULT["sink"]
        and v["value_format"] == DEFAULT["value_format"]
        and v["schema_registry"] == DEFAULT["schema_registry"]
        and v["delivery_guarantee"] == DEFAULT["delivery_guarantee"]
    }.values(),
    {**DEFAULT, "storage": "s3"},
]
"""Of each format one (the default, the last of the others), of each other sink one, one in S3."""
BIN = Path(sys.executable).parent

by_variant = pytest.mark.parametrize("answers", VARIANTS, ids=name_of)
# Which Spark is pinned changes no Python, but that one test is left out.
by_code = pytest.mark.parametrize(
    "answers", [v for v in VARIANTS if v["spark_version"] == usual_spark(v)], ids=name_of
)


pytestmark = pytest.mark.spread


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where all processes of this run have the variants."""
    own = tmp_path_factory.getbasetemp()
    shared = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "variants"
    shared.mkdir(exist_ok=True)
    return shared


def rendered(folder: Path, answers: Answers) -> Path:
    """The variant's tree; made once."""
    dest = folder / name_of(answers)
    if not dest.exists():
        draft = render(Path(tempfile.mkdtemp(dir=folder)), **answers)
        with suppress(OSError):  # another process was quicker
            draft.rename(dest)
    return dest


def files(tree: Path) -> Iterator[Path]:
    made = {".mypy_cache", ".ruff_cache", ".import_linter_cache", "__pycache__"}
    for path in sorted(tree.rglob("*")):
        if path.is_file() and not made & set(path.relative_to(tree).parts):
            yield path


def checked(tree: Path, *command: str, **environment: str) -> None:
    """Runs a check of the variant's own, as its Makefile does."""
    done = subprocess.run(
        [str(BIN / command[0]), *command[1:]],
        cwd=tree,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}{done.stderr}"


def test_there_is_a_variant_for_each_answer_on_offer() -> None:
    for question, offered in MATRIX["answers"].items():
        given = {answers[question] for answers in VARIANTS if question in answers}
        assert given == set(offered.values())


@by_variant
def test_a_variant_is_whole(folder: Path, answers: Answers) -> None:
    tree = rendered(folder, answers)
    paths = {str(path.relative_to(tree)) for path in files(tree)}
    suffix = {"json": "ddl", "avro": "avsc", "protobuf": "proto"}[answers["value_format"]]
    assert {f"schemas/{topic}.{suffix}" for topic in answers["topics"]} <= paths
    assert (".github/workflows/ci.yml" in paths) == (answers["ci"] == "github")
    assert (".gitlab-ci.yml" in paths) == (answers["ci"] == "gitlab")
    for path in files(tree):
        text = path.read_text()
        assert not re.search(r"(?<!\$)\{\{-? |\{%[-+ ]|\{#[- ]", text), f"left over in {path}"
        if text:
            assert text.endswith("\n"), f"no newline at the end of {path}"
            assert not text.endswith("\n\n"), f"an empty line at the end of {path}"
        assert not re.search(r"[ \t]+$", text, re.MULTILINE), f"trailing blanks in {path}"
        assert "\n\n\n\n" not in text, f"a hole in {path}"
        parse(path, text)


def parse(path: Path, text: str) -> Any:
    """Raises unless the text is what the file's name says."""
    match path.suffix:
        case ".toml":
            return tomllib.loads(text)
        case ".yml" | ".yaml":
            return yaml.safe_load(text)
        case ".xml":
            return ET.fromstring(text)
        case ".json":
            return json.loads(text)
        case ".sh":
            return subprocess.run(["sh", "-n", path], check=True)
        case _:
            return None


@by_variant
def test_a_variant_pins_what_the_matrix_says(folder: Path, answers: Answers) -> None:
    tree = rendered(folder, answers)
    spark = MATRIX["spark"][answers["spark_version"]]
    project = tomllib.loads((tree / "pyproject.toml").read_text())["project"]
    assert f"pyspark=={spark['pyspark']}" in project["dependencies"]
    has_delta = answers["sink"] == "delta"
    assert (f"delta-spark=={spark['delta']}" in project["dependencies"]) == has_delta
    assert all("==" in dependency for dependency in project["dependencies"])
    jars = {
        jar.attrib["name"]: jar.attrib["rev"]
        for jar in ET.parse(tree / "jars.xml").iter("dependency")
    }
    assert jars["spark-sql-kafka-0-10_2.13"] == spark["pyspark"]
    assert jars.get(spark["delta_artifact"]) == (spark["delta"] if has_delta else None)
    runtimes = {name: jar for name, jar in jars.items() if name.startswith("iceberg-")}
    has_iceberg = answers["sink"] == "iceberg"
    assert runtimes == ({spark["iceberg_artifact"]: spark["iceberg"]} if has_iceberg else {})
    assert ("kms" in jars) == (has_iceberg and answers["storage"] == "s3")


@by_variant
def test_the_answers_reach_the_settings(folder: Path, answers: Answers) -> None:
    tree = rendered(folder, answers)
    defaults = tomllib.loads((tree / "src/orders_pipeline/defaults.toml").read_text())
    assert defaults["topics"] == answers["topics"]
    assert defaults["trigger"] == answers["trigger"]
    keys = defaults.get("table", {}).get("key_columns")
    assert keys == answers.get("key_columns")


@by_variant
def test_the_guarantee_is_in_the_readme_in_the_matrix_words(folder: Path, answers: Answers) -> None:
    readme = " ".join((rendered(folder, answers) / "README.md").read_text().split())
    said = MATRIX["guarantees"][answers["sink"]][answers["write_mode"]]
    assert said[answers["delivery_guarantee"]] in readme
    assert sum(sentence in readme for sentence in said.values()) == 1


@by_variant
def test_files_md_names_every_file_and_no_other(folder: Path, answers: Answers) -> None:
    tree = rendered(folder, answers)
    package = "src/orders_pipeline/"
    paths = {str(path.relative_to(tree)) for path in files(tree)}
    named = set()
    text = (tree / "docs/FILES.md").read_text()
    for cell in re.findall(r"^\| (`.*?`) \|", text, re.MULTILINE):
        named |= set(re.findall(r"`([^`]+)`", cell))
    named.discard(package)

    def names(name: str, path: str) -> bool:
        return path in {name, package + name} or (name.endswith("/") and path.startswith(name))

    assert [path for path in paths if not any(names(name, path) for name in named)] == []
    assert [name for name in named if not any(names(name, path) for path in paths)] == []


@by_variant
def test_a_variant_is_linted_and_formatted(folder: Path, answers: Answers) -> None:
    tree = rendered(folder, answers)
    checked(tree, "ruff", "check", "--no-cache", ".")
    checked(tree, "ruff", "format", "--no-cache", "--check", ".")


@pytest.mark.parametrize("answers", GOLDEN_VARIANTS, ids=name_of)
@pytest.mark.parametrize("name", ["a", "z" * 40])
def test_whatever_the_name_the_code_stays_linted_and_formatted(
    tmp_path: Path, name: str, answers: Answers
) -> None:
    render(tmp_path, project_name=name, **answers)
    checked(tmp_path, "ruff", "check", "--no-cache", ".")
    checked(tmp_path, "ruff", "format", "--no-cache", "--check", ".")


@by_code
def test_a_variant_passes_the_type_checker(
    folder: Path, answers: Answers, tmp_path_factory: pytest.TempPathFactory
) -> None:
    tree = rendered(folder, answers)
    # One cache for all of a process: PySpark's types are read once.
    checked(tree, "mypy", "--cache-dir", str(tmp_path_factory.getbasetemp() / ".mypy_cache"))


@by_code
def test_stages_import_no_other_stage(folder: Path, answers: Answers) -> None:
    tree = rendered(folder, answers)
    checked(tree, "lint-imports", "--no-cache", PYTHONPATH=str(tree / "src"))


def test_hooks_hold_nothing_that_jinja_would_read() -> None:
    for path in (ROOT / "hooks").rglob("*"):
        if path.suffix in {".py", ".yml", ".json"}:
            for number, line in enumerate(path.read_text().splitlines(), 1):
                assert not re.search(r"\{[{%#]", line), f"{path}:{number}: {line}"


def test_every_hook_is_in_a_variant(folder: Path) -> None:
    texts = {
        path.read_text()
        for answers in VARIANTS
        for path in files(rendered(folder, answers))
        if path.suffix == ".py"
    }
    hooks = list((snapshot() / "hooks").rglob("*.py"))
    assert hooks
    assert [str(path) for path in hooks if path.read_text() not in texts] == []


@pytest.mark.parametrize("answers", GOLDEN_VARIANTS, ids=name_of)
def test_the_golden_tree_is_what_is_rendered(
    folder: Path, answers: Answers, request: pytest.FixtureRequest
) -> None:
    tree, golden = rendered(folder, answers), GOLDEN / name_of(answers)
    actual = {str(path.relative_to(tree)): without_source(path) for path in files(tree)}
    if request.config.getoption("--update-golden"):
        for path in list(files(golden)):
            path.unlink()
        for name, text in actual.items():
            (golden / name).parent.mkdir(parents=True, exist_ok=True)
            (golden / name).write_text(text)
    expected = {str(path.relative_to(golden)): path.read_text() for path in files(golden)}
    assert sorted(expected) == sorted(actual), "review with: pytest --update-golden; git diff"
    for name, text in actual.items():
        assert text == expected[name], f"{name}: review with: pytest --update-golden; git diff"


def without_source(path: Path) -> str:
    """The file's text, less where the template lay."""
    return re.sub(r"^_(src_path|commit):.*\n", "", path.read_text(), flags=re.MULTILINE)
