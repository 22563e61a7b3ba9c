"""One idea a file: short files, short functions, names that say something."""

from __future__ import annotations

import ast
import warnings

from tests.style.sources import PACKAGES, name, python_files, tree

MAX_FILE_LINES = 400
LONG_FILE_LINES = 300
MAX_FUNCTION_LINES = 60
EMPTY_NAMES = {"util", "utils", "helper", "helpers", "common", "misc", "base"}
UNFINISHED = ("TODO", "FIXME", "XXX", "NotImplementedError")


def test_no_file_is_longer_than_the_budget():
    lines = {name(path): len(path.read_text().splitlines()) for path in python_files(*PACKAGES, "tests", "benchmarks")}
    for path, count in lines.items():
        if count > LONG_FILE_LINES:
            warnings.warn(f"{path} has {count} lines: is it one idea?", stacklevel=1)
    assert {path: count for path, count in lines.items() if count > MAX_FILE_LINES} == {}


def test_no_function_is_longer_than_the_budget():
    long = {
        f"{name(path)}:{node.name}": node.end_lineno - node.lineno + 1
        for path in python_files(*PACKAGES)
        for node in ast.walk(tree(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.end_lineno - node.lineno >= MAX_FUNCTION_LINES
    }
    assert long == {}


def test_every_name_says_something():
    parts = {
        part: name(path)
        for path in python_files(*PACKAGES, "tests", "benchmarks")
        for part in path.with_suffix("").parts
    }
    assert {part: path for part, path in parts.items() if part in EMPTY_NAMES} == {}


def test_init_files_hold_a_docstring_only():
    bodies = {name(path): tree(path).body for path in python_files(*PACKAGES, "tests") if path.name == "__init__.py"}
    assert [path for path, body in bodies.items() if len(body) != 1 or not isinstance(body[0], ast.Expr)] == []


def test_nothing_is_left_unfinished():
    found = [
        f"{name(path)}: {word}" for path in python_files(*PACKAGES) for word in UNFINISHED if word in path.read_text()
    ]
    assert found == [], "\n".join(found)


def test_dagster_modules_keep_their_annotations_at_run_time():
    postponed = [
        name(path)
        for path in python_files("assets", "jobs", "resources")
        if "from __future__ import annotations" in path.read_text()
    ]
    assert postponed == [], "Dagster reads annotations at run time"
