"""One home on which the whole chain ran once, shared by the smoke tests."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.smoke.chain import Runs, derive, train


@dataclass(frozen=True, kw_only=True)
class Chain:
    """What a range run left behind.

    Attributes:
        home: the state after the whole chain.
        derived: a copy of the state before any training.
        runs: the Dagster runs, in order.
    """

    home: Path
    derived: Path
    runs: Runs


@pytest.fixture(scope="session")
def chain(jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Chain:
    """The chain, run over a range of three days and one of history, with real Spark, Delta, trainers and MLflow."""
    folder = tmp_path_factory.mktemp("chain")
    home, derived = new_home(folder / "home", jars), folder / "derived"
    runs = derive(home)
    shutil.copytree(home, derived, symlinks=True)
    return Chain(home=home, derived=derived, runs=runs + train(home))


def new_home(home: Path, jars: Path) -> Path:
    """An empty home with the Delta jars."""
    home.mkdir(parents=True)
    (home / "jars").symlink_to(jars)
    return home
