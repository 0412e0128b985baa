"""What this repository runs its variants with is what the variants pin."""

import re
import subprocess
import tomllib
from pathlib import Path

from rendering import MATRIX, ROOT, choices, render

PINNED: dict[str, str] = {
    **MATRIX["python_packages"],
    **MATRIX["development_packages"],
    **MATRIX["registry_packages"],
    **MATRIX["protobuf_packages"],
    **{name: MATRIX[name] for name in ("cryptography", "fastavro", "sqlglot")},
    **{
        re.sub(r"\[.*\]", "", name): version
        for packages in (
            *MATRIX["format_packages"].values(),
            *MATRIX["sink_packages"].values(),
            MATRIX["store_packages"],
        )
        for name, version in packages.items()
    },
    "pyspark": MATRIX["spark"][choices("spark_version")[0]]["pyspark"],
    "delta-spark": MATRIX["spark"][choices("spark_version")[0]]["delta"],
}


def test_pyproject_pins_what_the_matrix_says() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    named = (re.sub(r"\[.*\]", "", name) for name in project["dependency-groups"]["dev"])
    wanted = dict(name.split("==") for name in named if "==" in name)
    assert {name: wanted.get(name) for name in PINNED} == PINNED


def test_requirements_are_locked_with_hashes_from_no_named_host() -> None:
    text = (ROOT / "requirements.txt").read_text()
    locked = dict(re.findall(r"^([a-z0-9-]+)==([^ ]+)", text, re.MULTILINE))
    assert {name: locked.get(name) for name in PINNED} == PINNED
    assert "://" not in text
    for requirement in re.split(r"\n(?=[a-z])", text)[1:]:
        assert "--hash=sha256:" in requirement, requirement.split()[0]


def test_requirements_hold_all_that_pyproject_names() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    locked = re.findall(r"^([a-z0-9-]+)==", (ROOT / "requirements.txt").read_text(), re.MULTILINE)
    wanted = {re.split(r"[\[=>]", name)[0] for name in project["dependency-groups"]["dev"]}
    assert sorted(wanted - set(locked)) == []


def test_setup_is_that_of_a_new_repository_but_for_its_packages(tmp_path: Path) -> None:
    """Of one for the Spark that takes the fewest versions of Java, since all of them run here."""
    subprocess.run(["make", "--silent", ".tools/setup.sh"], cwd=ROOT, check=True)
    spark = min(MATRIX["spark"], key=lambda version: MATRIX["spark"][version]["newest_java"])
    rendered = (render(tmp_path, spark_version=spark) / "scripts/setup.sh").read_text()
    assert (ROOT / ".tools/setup.sh").read_text() + "set_up_packages\n" == rendered
