"""How the tests are spread over processes, their options, and the settings of their processes."""

import os

import pytest

import shared_classes

os.environ.setdefault("JDK_JAVA_OPTIONS", shared_classes.java_options())
# As the products' own conftest.py has it, for JVMs that start before it is read.
os.environ.setdefault("SPARK_DRIVER_MEMORY", "2g")
# A worker of Spark that compiles all that it imports takes three times as long to start.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


@pytest.fixture(scope="session")
def spark_classes() -> None:
    """Has the JVMs of all later tests start in half the time: see ``shared_classes.py``."""
    shared_classes.record()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds --update-golden."""
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="write the golden trees anew instead of comparing with them; review the difference",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Declares the markers."""
    config.addinivalue_line("markers", "spread: any process may run it")
    config.addinivalue_line("markers", "long: takes minutes, so it begins early")
    config.addinivalue_line("markers", "whole: left to `make whole`, since it takes hours")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Shows a line for each variant whose own tests were run: which, how long, what came of it."""
    lines = []
    for outcome in ("passed", "failed", "error"):
        for report in terminalreporter.getreports(outcome):
            found = dict(report.user_properties)
            if "variant" in found and report.when == "call":
                lines.append(
                    (found["variant"], found.get("ran", "FAILED"), f"{report.duration:.0f} s")
                )
    if lines:
        terminalreporter.section("the variants that were run")
        width = max(len(str(line[0])) for line in lines)
        for variant, ran, seconds in sorted(lines):
            terminalreporter.write_line(f"{variant:<{width}}  {seconds:>6}  {ran}")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keeps a file's tests in one process, since they share what was rendered and a broker.

    Those that take longest begin first: at the end all processes are busy until nearly the same
    moment.
    """
    items.sort(key=lambda item: item.get_closest_marker("long") is None)
    for item in items:
        if not item.get_closest_marker("spread"):
            item.add_marker(pytest.mark.xdist_group(item.path.name))
