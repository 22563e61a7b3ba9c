"""Models and metrics say their shapes and where their ideas come from."""

from __future__ import annotations

import ast
import re

from tests.style.sources import name, python_files, tree

SHAPE = re.compile(r"_[A-Z][A-Z0-9]*\b|\[[A-Z][A-Za-z0-9]*(, ?[A-Za-z0-9_ +*]+)*\]")
SOURCE = re.compile(r"arXiv|et al|\b[Oo]urs?\b|[Pp]aper|section \d")


def test_every_forward_names_its_shapes():
    silent = []
    for path in python_files("gem_pipeline"):
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.FunctionDef) and node.name == "forward":
                arguments = " ".join(argument.arg for argument in node.args.args)
                if not SHAPE.search(f"{arguments} {ast.get_docstring(node) or ''}"):
                    silent.append(f"{name(path)}:{node.lineno}")
    assert silent == [], "\n".join(silent)


def test_every_model_kernel_and_metric_names_its_source():
    silent = []
    for path in python_files("gem_pipeline/models", "gem_pipeline/kernels", "gem_pipeline/metrics"):
        if path.name == "__init__.py":
            continue
        documented = (ast.Module, ast.ClassDef, ast.FunctionDef)
        texts = [ast.get_docstring(node) or "" for node in ast.walk(tree(path)) if isinstance(node, documented)]
        if not SOURCE.search(" ".join(texts)):
            silent.append(name(path))
    assert silent == [], "\n".join(silent)
