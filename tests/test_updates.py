"""Tier 4: an update gives what a fresh copy gives, and never eats an edit. No Spark, no trust.

The template is a clone of this repository, its history included, with two releases more: THIS is
the work tree, with what is not committed yet; NEXT comes after it. Each product is a git repository
that was made from one of them.
"""

import shutil
import subprocess
from collections.abc import Iterator
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from typing import Any

import copier
import pytest
import yaml

from rendering import ROOT, Answers, snapshot

# Above any real release, since copier updates to the highest.
THIS, NEXT = "v1000.0.0", "v1000.1.0"
PACKAGE = "src/orders_pipeline"
YOURS: list[str] = yaml.safe_load((ROOT / "copier.yml").read_text())["_skip_if_exists"]
UPSERT: Answers = {"write_mode": "upsert", "key_columns": ["id"]}
MARKERS = ("<<<<<<<", ">>>>>>>")


def git(folder: Path, *command: str) -> str:
    done = subprocess.run(["git", *command], cwd=folder, capture_output=True, check=True, text=True)
    return done.stdout


def commit(folder: Path, message: str) -> None:
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--allow-empty", "--message", message)


@cache
def earlier() -> list[str]:
    """The releases in this repository's history; while there is none, its first commit."""
    tags = git(ROOT, "tag", "--merged", "HEAD", "--list", "v*").split()
    commits = git(ROOT, "log", "--reverse", "--format=%H", "--", "copier.yml").split()
    return tags or commits[:1]


@pytest.fixture(scope="module", autouse=True)
def _identity() -> Iterator[None]:
    """An author for commits; a machine's own settings of git change nothing."""
    with pytest.MonkeyPatch.context() as patch:
        for role in ("AUTHOR", "COMMITTER"):
            patch.setenv(f"GIT_{role}_NAME", "Test")
            patch.setenv(f"GIT_{role}_EMAIL", "test@example.com")
        settings = {"commit.gpgSign": "false", "tag.gpgSign": "false", "core.autocrlf": "false"}
        patch.setenv("GIT_CONFIG_COUNT", str(len(settings)))
        for number, (name, value) in enumerate(settings.items()):
            patch.setenv(f"GIT_CONFIG_KEY_{number}", name)
            patch.setenv(f"GIT_CONFIG_VALUE_{number}", value)
        yield


@pytest.fixture(scope="module")
def template(_identity: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clone of this repository, with the work tree released as THIS and a change as NEXT."""
    clone = tmp_path_factory.mktemp("template") / "kafka-to-table"
    git(ROOT, "clone", "--quiet", str(ROOT), str(clone))
    for name in ("template", "hooks"):
        shutil.rmtree(clone / name)
    shutil.copytree(snapshot(), clone, dirs_exist_ok=True)
    commit(clone, "The work tree")
    git(clone, "tag", THIS)
    make_next_release(clone)
    commit(clone, "A change to the template")
    git(clone, "tag", NEXT)
    return clone


def make_next_release(clone: Path) -> None:
    """One change of each kind: in a file, a hook, a sample, a default; a file more and one less."""
    edit(clone / "template/docs/RUNBOOK.md.jinja", end="\n## A new chapter\n")
    edit(clone / "template/Dockerfile.jinja", end="# a new last line\n")
    edit(clone / "hooks/pipeline/exactly_once.py.jinja", end="\n# a new last line\n")
    edit(clone / "template/conf/pipeline.toml.jinja", start="# A better sample.\n")
    (clone / "template/docs/NEW.md.jinja").write_text("# News for {{ project_name }}\n")
    (clone / "template/compose.yaml.jinja").unlink()
    questions = clone / "copier.yml"
    text = questions.read_text()
    assert "default: 30 seconds" in text
    questions.write_text(text.replace("default: 30 seconds", "default: 60 seconds"))


def edit(path: Path, *, start: str = "", end: str = "") -> None:
    path.write_text(start + path.read_text() + end)


def copy(template: Path, dest: Path, release: str, **answers: Any) -> Path:
    """A repository made from a release, in its first commit."""
    copier.run_copy(
        str(template), dest, data=answers, vcs_ref=release, defaults=True, quiet=True, unsafe=False
    )
    git(dest, "init", "--quiet")
    commit(dest, "Start from the template")
    return dest


def update(product: Path, release: str | None = None, **answers: Any) -> None:
    """Commits what the user did and runs ``copier update``, with these answers changed."""
    commit(product, "The user's own work")
    copier.run_update(
        product,
        data=answers,
        vcs_ref=release,
        defaults=True,
        overwrite=True,
        quiet=True,
        unsafe=False,
    )


def answers_of(product: Path) -> Answers:
    answers: Answers = yaml.safe_load((product / ".copier-answers.yml").read_text())
    return answers


def tree(product: Path) -> dict[str, bytes]:
    """Each file's path and bytes, git's own left out."""
    return {
        str(path.relative_to(product)): path.read_bytes()
        for path in product.rglob("*")
        if path.is_file() and ".git" not in path.relative_to(product).parts
    }


def is_yours(name: str) -> bool:
    return any(fnmatch(name, pattern) for pattern in YOURS)


def assert_clean(product: Path) -> None:
    """No change was refused, and none left to the user to merge."""
    for name, text in tree(product).items():
        assert not name.endswith(".rej"), name
        assert not any(marker.encode() in text for marker in MARKERS), name
    assert git(product, "diff", "--name-only", "--diff-filter=U") == ""


def assert_like_fresh_copy(product: Path, template: Path, release: str, dest: Path) -> None:
    """The template's files are a fresh copy's, byte for byte; the user's are there as well."""
    given = {name: value for name, value in answers_of(product).items() if name[0] != "_"}
    fresh, updated = tree(copy(template, dest, release, **given)), tree(product)
    assert sorted(updated) == sorted(fresh)
    assert [name for name in fresh if not is_yours(name) and updated[name] != fresh[name]] == []
    assert_clean(product)


class Story:
    """A product that was edited in many ways, none on a line that NEXT changes, then updated."""

    def __init__(self, product: Path) -> None:
        self.product = product
        edit(self.product / "docs/RUNBOOK.md", start="# Ours\n\n")
        edit(self.product / PACKAGE / "pipeline.py", start="# ours\n")
        edit(self.product / "Makefile", end="\nours: ## ours\n")
        edit(self.product / "conf/pipeline.toml", end="\n# ours\n")
        edit(self.product / "schemas/orders.ddl", end="\n-- ours\n")
        edit(self.product / PACKAGE / "transform.py", end="\n# ours\n")
        (self.product / PACKAGE / "ours.py").write_text("# ours\n")
        # The template changes the first of these two.
        (self.product / "Dockerfile").unlink()
        (self.product / ".dockerignore").unlink()
        (self.product / "tests/unit/test_transform.py").unlink()
        self.before = tree(self.product)
        update(self.product)
        self.after = tree(self.product)

    def text(self, name: str) -> str:
        return self.after[name].decode()


@pytest.fixture(scope="module")
def started(template: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A product made from THIS with the default answers, to be copied."""
    return copy(template, tmp_path_factory.mktemp("started") / "product", THIS)


@pytest.fixture(scope="module")
def story(started: Path, tmp_path_factory: pytest.TempPathFactory) -> Story:
    folder = tmp_path_factory.mktemp("story") / "product"
    return Story(Path(shutil.copytree(started, folder)))


@pytest.fixture
def product(started: Path, tmp_path: Path) -> Path:
    """A product made from THIS with the default answers."""
    return Path(shutil.copytree(started, tmp_path / "product"))


def test_update_equals_fresh_copy_when_nothing_was_edited(
    template: Path, product: Path, tmp_path: Path
) -> None:
    before = tree(product)
    update(product)
    after = tree(product)
    assert answers_of(product)["_commit"] == NEXT
    assert_like_fresh_copy(product, template, NEXT, tmp_path / "fresh")
    assert {"docs/NEW.md"} == after.keys() - before.keys()
    assert {"compose.yaml"} == before.keys() - after.keys()
    changed = {name for name in before.keys() & after.keys() if before[name] != after[name]}
    assert changed == {
        ".copier-answers.yml", "Dockerfile", "docs/RUNBOOK.md", f"{PACKAGE}/pipeline.py",
    }  # fmt: skip


@pytest.mark.parametrize("release", earlier())
@pytest.mark.parametrize("answers", [{}, UPSERT | {"ci": "gitlab"}], ids=["default", "upsert"])
def test_update_equals_fresh_copy_when_made_from_an_earlier_release(
    template: Path, tmp_path: Path, release: str, answers: Answers
) -> None:
    product = copy(template, tmp_path / "product", release, **answers)
    update(product, THIS)
    assert answers_of(product)["_commit"] == THIS
    assert_like_fresh_copy(product, template, THIS, tmp_path / "fresh")


def test_answer_is_kept_when_its_default_changed(story: Story, template: Path) -> None:
    assert "default: 60 seconds" in git(template, "show", f"{NEXT}:copier.yml")
    assert answers_of(story.product)["trigger"] == "30 seconds"
    assert 'trigger = "30 seconds"' in story.text(f"{PACKAGE}/defaults.toml")


def test_edit_is_merged_when_the_template_changed_other_lines(story: Story) -> None:
    runbook = story.text("docs/RUNBOOK.md")
    assert runbook.startswith("# Ours\n")
    assert runbook.endswith("## A new chapter\n")
    pipeline = story.text(f"{PACKAGE}/pipeline.py")
    assert pipeline.startswith("# ours\n")
    assert pipeline.endswith("# a new last line\n")


def test_edit_is_kept_when_the_template_left_the_file_alone(story: Story) -> None:
    assert story.after["Makefile"] == story.before["Makefile"]
    assert story.after[f"{PACKAGE}/ours.py"] == b"# ours\n"


@pytest.mark.parametrize(
    "name", ["conf/pipeline.toml", "schemas/orders.ddl", f"{PACKAGE}/transform.py"]
)
def test_users_own_file_is_untouched_when_edited(story: Story, name: str) -> None:
    assert is_yours(name)
    assert story.text(name).endswith("ours\n")
    assert story.after[name] == story.before[name]


@pytest.mark.parametrize("name", ["Dockerfile", ".dockerignore"], ids=["changed", "unchanged"])
def test_file_stays_deleted_when_the_user_deleted_it(story: Story, name: str) -> None:
    assert not is_yours(name)
    assert name not in story.after


def test_users_own_file_comes_back_as_the_sample_when_deleted(story: Story, started: Path) -> None:
    """What docs/UPDATING.md warns of: copier makes such a file whenever it is not there."""
    name = "tests/unit/test_transform.py"
    assert is_yours(name)
    assert name not in story.before
    assert story.after[name] == (started / name).read_bytes()


def test_nothing_is_left_to_merge_when_no_edit_overlapped(story: Story) -> None:
    assert_clean(story.product)
    assert "docs/NEW.md" in story.after
    assert "compose.yaml" not in story.after


def test_both_sides_are_shown_when_an_edit_overlapped(product: Path) -> None:
    edit(product / "Dockerfile", end="# our last line\n")
    update(product)
    merged = (product / "Dockerfile").read_text()
    assert all(f"\n{marker} " in merged for marker in MARKERS)
    assert "# our last line\n" in merged
    assert "# a new last line\n" in merged
    assert git(product, "diff", "--name-only", "--diff-filter=U") == "Dockerfile\n"


def test_one_schema_comes_and_one_goes_when_topics_are_changed(
    template: Path, tmp_path: Path
) -> None:
    product = copy(template, tmp_path / "product", THIS, topics=["orders", "payments"])
    # The schema of the topic that goes is edited as well, and goes all the same: README says so.
    edit(product / "schemas/payments.ddl", end="\n-- ours\n")
    edit(product / "schemas/orders.ddl", end="\n-- ours\n")
    orders = (product / "schemas/orders.ddl").read_bytes()
    update(product, topics=["orders", "refunds"])
    schemas = {path.name for path in (product / "schemas").iterdir()}
    assert schemas == {"orders.ddl", "refunds.ddl"}
    assert (product / "schemas/orders.ddl").read_bytes() == orders
    defaults = (product / PACKAGE / "defaults.toml").read_text()
    assert 'topics = ["orders", "refunds"]' in defaults
    assert_like_fresh_copy(product, template, NEXT, tmp_path / "fresh")


@pytest.mark.parametrize(
    ("before", "answers", "comes", "goes"),
    [
        ({}, UPSERT, f"{PACKAGE}/keys.py", None),
        (UPSERT, {"write_mode": "append", "key_columns": []}, None, f"{PACKAGE}/keys.py"),
        ({}, {"delivery_guarantee": "at-most-once"}, None, None),
        ({}, {"spark_version": "4.0", "trigger": "availableNow"}, None, None),
        ({}, {"ci": "gitlab"}, ".gitlab-ci.yml", ".github/workflows/ci.yml"),
    ],
    ids=["upsert", "append", "at-most-once", "spark-4.0", "gitlab"],
)
def test_update_equals_fresh_copy_when_an_answer_is_changed(
    template: Path,
    product: Path,
    tmp_path: Path,
    before: Answers,
    answers: Answers,
    comes: str | None,
    goes: str | None,
) -> None:
    if before:
        product = copy(template, tmp_path / "before", THIS, **before)
    update(product, **answers)
    stored = answers_of(product)
    assert {name: stored.get(name, []) for name in answers} == answers
    assert comes is None or (product / comes).is_file()
    assert goes is None or not (product / goes).exists()
    assert_like_fresh_copy(product, template, NEXT, tmp_path / "fresh")


@pytest.mark.parametrize(
    ("before", "change"),
    [
        ({"sink": "postgres"}, {"topics": "a-b, a_b"}),
        ({"topics": "a-b, a_b"}, {"sink": "postgres"}),
    ],
)
def test_update_is_refused_when_the_sink_does_not_take_the_topics(
    template: Path, tmp_path: Path, before: Answers, change: Answers
) -> None:
    """Neither answer falls back to its default instead."""
    product = copy(template, tmp_path / "product", THIS, **before)
    stood = tree(product)
    with pytest.raises(ValueError, match="a_b collides with another topic"):
        update(product, **change)
    assert tree(product) == stood


def test_update_is_refused_when_a_release_asks_for_trust(
    template: Path, product: Path, tmp_path: Path
) -> None:
    """The control: what these tests would say of a template that runs something."""
    untrusted = tmp_path / "untrusted"
    git(template, "clone", "--quiet", str(template), str(untrusted))
    edit(untrusted / "copier.yml", end="\n_tasks: ['true']\n")
    commit(untrusted, "A task")
    git(untrusted, "tag", "v1000.2.0")
    answers = product / ".copier-answers.yml"
    answers.write_text(answers.read_text().replace(str(template), str(untrusted)))
    with pytest.raises(copier.errors.UnsafeTemplateError):
        update(product)
