"""The project's files, as the style tests see them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("gem_pipeline", "assets", "jobs", "resources", "spark")
DOCUMENTS = ("README.md", "ARCHITECTURE.md", "CHANGELOG.md", "Makefile", ".ci/run", "pyproject.toml", "constraints.txt")


@cache
def python_files(*folders: str) -> tuple[Path, ...]:
    """Python files below some folders of the root, sorted."""
    found = (path for folder in folders for path in (ROOT / folder).rglob("*.py"))
    return tuple(sorted(path for path in found if "__pycache__" not in path.parts))


def text_files() -> Iterator[Path]:
    """Every text file that is delivered."""
    yield from python_files(*PACKAGES, "tests", "benchmarks")
    yield from (ROOT / name for name in DOCUMENTS)
    for pattern in ("docs/*.md", "gem_pipeline/**/*.yaml", "*.yaml"):
        yield from sorted(ROOT.glob(pattern))


@cache
def tree(path: Path) -> ast.Module:
    """Syntax tree of a file."""
    return ast.parse(path.read_text(encoding="utf-8"))


def name(path: Path) -> str:
    """Path from the root, for messages."""
    return path.relative_to(ROOT).as_posix()
