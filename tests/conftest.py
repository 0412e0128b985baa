"""Options of the tests."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds --update-golden."""
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="write the golden trees anew instead of comparing with them; review the difference",
    )
