"""A chain that is killed and run again leaves what an undisturbed one leaves."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.smoke.chain import (
    DATES,
    LocalTrainer,
    assert_same_tables,
    derive,
    features_of,
    run,
    scores_of,
    weights_of,
)
from tests.smoke.conftest import new_home

pytestmark = [pytest.mark.smoke, pytest.mark.slow, pytest.mark.spark]
ROOT = Path(__file__).parents[2]
PATIENCE_S = 240.0


def kill_chain_when(home: Path, ready: Callable[[str], bool]) -> str:
    """Start the chain in a process of its own and end it with everything it started, SIGKILL, at a moment.

    Args:
        home: state.
        ready: given what the chain wrote to the terminal so far, tells that the moment has come.

    Returns:
        What it wrote.
    """
    told = home.parent / "told.txt"
    with told.open("w") as terminal:
        chain = subprocess.Popen(
            [sys.executable, "-m", "tests.smoke.chain", str(home)], cwd=ROOT, stdout=terminal, stderr=terminal,
            start_new_session=True,
        )  # fmt: skip
    try:
        deadline = time.monotonic() + PATIENCE_S
        while not ready(told.read_text()):
            assert chain.poll() is None, told.read_text()
            assert time.monotonic() < deadline, told.read_text()
            time.sleep(0.05)
    finally:
        os.killpg(chain.pid, signal.SIGKILL)
        chain.wait()
    return told.read_text()


def test_a_chain_killed_in_spark_derives_the_same_tables_when_it_runs_again(chain, jars, tmp_path):
    home = new_home(tmp_path / "home", jars)
    gates, started = home / "gates", home / "lake" / "counter_increments" / "_delta_log"
    kill_chain_when(home, lambda _: started.exists())
    assert (gates / "user_events" / f"{DATES[-1]}.json").exists()
    assert not (gates / "counter_increments").exists(), "it was killed before the counters were published"
    derive(home)
    assert_same_tables(features_of(chain.home), features_of(home))


def test_a_chain_killed_in_training_learns_the_same_weights_when_it_runs_again(chain, tmp_path):
    home = tmp_path / "home"
    shutil.copytree(chain.derived, home, symlinks=True)
    kill_chain_when(home, lambda told: f"{DATES[1]} gem learns" in told)
    assert (home / "models" / "gem" / DATES[0] / "current.json").exists()
    assert not (home / "models" / "gem" / DATES[1]).exists(), "it was killed before the second model was stored"
    run(home, "refresh", DATES, launcher=LocalTrainer())
    wanted = {name: value for name, value in weights_of(chain.home).items() if not name.startswith("vertical")}
    assert wanted == weights_of(home)
    teacher = scores_of(chain.home)["teacher_outputs"]
    assert teacher.equals(scores_of(home)["teacher_outputs"])
