"""The packages at the root collide with nobody, the pins agree, and the wheel works away from the checkout."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

from gem_pipeline.preflight import DISTRIBUTION
from tests.style.sources import PACKAGES, ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_no_other_distribution_uses_our_top_level_names():
    owners = metadata.packages_distributions()
    strangers = {name: set(owners.get(name, ())) - {DISTRIBUTION} for name in PACKAGES}
    assert {name: owner for name, owner in strangers.items() if owner} == {}


def test_every_direct_dependency_is_pinned_as_in_the_constraints():
    resolved = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text().splitlines())
    extras = PROJECT["project"]["optional-dependencies"]
    direct = [*PROJECT["project"]["dependencies"], *extras["cpu"], *extras["dev"]]
    assert all(re.fullmatch(r"[a-z0-9-]+==[0-9.]+", line) for line in [*direct, *extras["cuda"]])
    assert {line: resolved.get(line.partition("==")[0]) for line in direct} == {
        line: line.partition("==")[2] for line in direct
    }
    assert "fbgemm-gpu" not in resolved, "the CUDA build does not load without a driver"


def test_both_builds_of_fbgemm_have_one_version():
    extras = PROJECT["project"]["optional-dependencies"]
    versions = {
        line.partition("==")[2] for extra in ("cpu", "cuda") for line in extras[extra] if line.startswith("fbgemm")
    }
    assert len(versions) == 1


def test_every_root_package_is_in_the_wheel_configuration():
    assert PROJECT["tool"]["setuptools"]["packages"]["find"]["include"] == [f"{name}*" for name in PACKAGES]
    assert [name for name in PACKAGES if not (ROOT / name / "__init__.py").exists()] == []


@pytest.mark.slow
def test_wheel_is_built_and_imported_from_another_folder(tmp_path):
    source = tmp_path / "source"
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for package in PACKAGES:
        shutil.copytree(ROOT / package, source / package, ignore=ignored)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    build = f"import setuptools.build_meta as b; b.build_wheel({str(tmp_path)!r})"
    subprocess.run([sys.executable, "-c", build], cwd=source, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    elsewhere = tmp_path / "elsewhere"
    shutil.unpack_archive(wheel, elsewhere, format="zip")

    modules = [*PACKAGES, "gem_pipeline.cli", "gem_pipeline.contracts.contract"]
    code = f"""
import sys; sys.path.insert(0, {str(elsewhere)!r})
sys.meta_path[:] = [finder for finder in sys.meta_path if "editable" not in repr(finder)]
import importlib
for name in {modules!r}:
    assert importlib.import_module(name).__file__.startswith({str(elsewhere)!r}), name
from gem_pipeline import cli, places
from gem_pipeline.contracts.contract import load_contract
load_contract(places.contract_path())
raise SystemExit(cli.main(["init", "contract.yaml"]))
"""
    answer = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
    assert Path(tmp_path / "contract.yaml").exists()
