"""The tutorial, followed to the letter: its own commands in order, and what it says of them."""

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from textwrap import dedent

import pytest

from rendering import ROOT
from running import OUTSIDE, run

TUTORIAL = (ROOT / "docs/tutorial.md").read_text()


def blocks(section: int) -> list[str]:
    """The indented blocks of a numbered section: commands, or what to write into a file."""
    [text] = re.findall(rf"^## {section}\. .*?(?=^## |\Z)", TUTORIAL, re.MULTILINE | re.DOTALL)
    return [
        dedent(block) for block in re.findall(r"(?:^ {4}.*\n|^\n(?= {4}))+", text, re.MULTILINE)
    ]


def followed(commands: str, folder: Path, **environment: str) -> str:
    """Types the commands into a shell; what it printed."""
    return run(["bash", "-euc", commands], folder, **environment)


@contextmanager
def second_terminal(commands: str, folder: Path) -> Iterator[dict[str, str]]:
    """The broker of section 4, until Enter is pressed; gives what its line exports."""
    shell = subprocess.Popen(
        ["bash", "-euc", commands],
        cwd=folder,
        env=OUTSIDE,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert shell.stdin
    assert shell.stdout
    try:
        line = next((line for line in shell.stdout if line.startswith("export ")), "")
        name, _, address = line.removeprefix("export ").strip().partition("=")
        assert address, "the broker did not start"
        yield {name: address}
    finally:
        shell.communicate("\n", timeout=60)
    assert shell.returncode == 0


@pytest.mark.spread
def test_tutorial_does_what_it_says(tmp_path: Path) -> None:
    """Left out: ``make demo`` and ``make test``, which other tests run."""
    [copy] = blocks(1)
    copy = copy.replace("uvx copier", f"{sys.executable} -m copier")
    followed(copy.replace("gh:<your-org>/kafka-to-table", f"{ROOT} --vcs-ref HEAD"), tmp_path)
    repository = tmp_path / "payments-pipeline"
    schema = repository / "schemas/payments.ddl"
    [fields] = blocks(3)
    schema.write_text(fields)
    start_broker, send = blocks(4)
    run_it, balance, look = blocks(5)
    [show_letters], [replay] = blocks(6), blocks(7)

    with second_terminal(start_broker, repository) as exported:
        followed(send, repository, **exported)
        printed = followed(run_it, repository, **exported)
        assert balance.strip().removesuffix(", ...}") in printed
        table = followed(look, repository, **exported)
        assert re.findall(r"\|(p-\d) *\|.*\|(\d+\.\d\d) *\|", table) == [
            ("p-1", "12.50"),
            ("p-2", "7.25"),
        ]
        assert '"read"' not in followed("make run", repository, **exported)

        letters = followed(show_letters, repository, **exported)
        assert '"payment_id": "p-3"' in letters
        assert "missing_field" in letters
        assert "Object missing required field `channel`" in letters

        schema.write_text(fields.replace("channel STRING NOT NULL", "channel STRING"))
        assert '"written": 1' in followed(replay, repository, **exported)
        assert re.findall(r"\|(p-\d) ", followed(look, repository, **exported)) == [
            "p-1",
            "p-2",
            "p-3",
        ]
        assert '"written": 0' in followed(replay, repository, **exported)
