"""Shared by all tests: golden files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite tests/golden from what is there now")


@pytest.fixture
def golden(request: pytest.FixtureRequest):
    """Compare plain values with a golden file, or rewrite it when asked to."""

    def compare(name: str, found: object) -> None:
        path = Path(__file__).parent / "golden" / name
        text = json.dumps(found, indent=1, sort_keys=True) + "\n"
        if request.config.getoption("--update-golden"):
            path.write_text(text, encoding="utf-8")
        assert path.read_text(encoding="utf-8") == text, f"{name} differs: review, then pytest --update-golden"

    return compare
