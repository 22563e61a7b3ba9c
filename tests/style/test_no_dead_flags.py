"""A configuration key that no code reads does not exist."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tests.style.sources import PACKAGES, name, python_files, tree

CONFIGURATION = re.compile(r"(Config|Options|Settings|Budget|Spec|Layout)$")
WHOLE_FILES = ("gem_pipeline/contracts/contract.py", "gem_pipeline/config/")
# Read by people, or checked while the contract is loaded and never again.
FOR_PEOPLE = {"DataContract.description", "DataContract.version"}


def configuration_fields() -> Iterator[tuple[str, str]]:
    for path in python_files(*PACKAGES):
        for node in ast.walk(tree(path)):
            if not isinstance(node, ast.ClassDef):
                continue
            if not (CONFIGURATION.search(node.name) or name(path).startswith(WHOLE_FILES)):
                continue
            for statement in node.body:
                if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                    yield f"{node.name}.{statement.target.id}", statement.target.id


def names_read() -> set[str]:
    """Attributes read anywhere in the product, outside of the checks of the class itself."""
    return {
        node.attr
        for path in python_files(*PACKAGES)
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Load)
        and not (isinstance(node.value, ast.Name) and node.value.id == "self" and name(path).startswith(WHOLE_FILES))
    }


def test_every_configuration_key_is_read():
    read = names_read()
    dead = sorted(where for where, field in configuration_fields() if field not in read and where not in FOR_PEOPLE)
    assert dead == [], "\n".join(dead)
