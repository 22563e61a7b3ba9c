"""The launcher with a real child process: the trainer's entry with a stand-in for the training itself."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import dagster as dg
import pytest

from gem_pipeline.training.plan import DayPlan
from resources.launcher import TrainerLauncher

CHILD = """
import os, sys, time, types
from pathlib import Path

MODE, HOME = sys.argv[1], Path(sys.argv[2])

class Report:
    def __init__(self, date):
        self.date = date
    def to_dict(self):
        return {"date": self.date, "models": [], "teacher_outputs": {}, "seconds": {}}

class Tracker:
    def __init__(self, home, uri=None, tags=None):
        (HOME / "tags").write_text(str(tags))
    def sweep(self):
        return 0

def train_day(plan, tracker, progress):
    from gem_pipeline.errors import GateError
    (HOME / f"started-{plan.date}").write_text(str(os.getpid()))
    if MODE == "bad_data" and plan.date == "2022-04-26":
        raise GateError("Table examples, date 2022-04-26, has no quality gate.", remedy="Materialise it.")
    if MODE == "crash_once" and not (HOME / "crashed").exists():
        (HOME / "crashed").write_text("")
        os.kill(os.getpid(), 9)
    if MODE == "stuck":
        while True:
            time.sleep(0.05)
    return Report(plan.date)

day, tracker = types.ModuleType("gem_pipeline.runs.day"), types.ModuleType("resources.tracker")
day.train_day, tracker.MlflowTracker = train_day, Tracker
sys.modules |= {"gem_pipeline.runs.day": day, "resources.tracker": tracker}
from resources.trainer import main
sys.exit(main([]))
"""
DATES = ("2022-04-25", "2022-04-26", "2022-04-27")
pytestmark = pytest.mark.graph


def command(home: Path, mode: str) -> list[str]:
    home.mkdir(exist_ok=True)
    script = home / "child.py"
    script.write_text(f"import sys; sys.path.insert(0, {str(Path(__file__).parents[2])!r})\n{CHILD}", encoding="utf-8")
    return [sys.executable, str(script), mode, str(home)]


def launch(home: Path, mode: str) -> tuple[dg.ExecuteInProcessResult, list[dict[str, object]]]:
    told: list[dict[str, object]] = []

    @dg.asset(required_resource_keys={"launcher"})
    def trained(context):
        plans = [DayPlan(date=date, previous_date=None, contract_path="c", home=str(home)) for date in DATES]
        told.extend(context.resources.launcher.launch(context, plans).values())
        return dg.MaterializeResult()

    result = dg.materialize(
        [trained], resources={"launcher": TrainerLauncher(command=command(home, mode))}, raise_on_error=False
    )
    return result, told


def failure(result: dg.ExecuteInProcessResult) -> dg.Failure:
    (event,) = [event for event in result.all_events if event.is_step_failure]
    return event.step_failure_data


def test_all_days_are_worked_off_by_one_process_in_order(tmp_path):
    result, told = launch(tmp_path / "home", "good")
    assert result.success
    assert [report["date"] for report in told] == list(DATES)
    assert len({(tmp_path / "home" / f"started-{date}").read_text() for date in DATES}) == 1
    (outcome,) = (tmp_path / "home" / "trainer").glob("*.json")
    assert json.loads(outcome.read_text()) == {"error": None, "reports": told}
    assert result.dagster_run.run_id in (tmp_path / "home" / "tags").read_text()


def test_a_typed_error_becomes_the_description_and_is_not_tried_again(tmp_path):
    result, _ = launch(tmp_path / "home", "bad_data")
    told = failure(result)
    assert told.user_failure_data.description == (
        "Table examples, date 2022-04-26, has no quality gate. Materialise it."
    )
    assert told.user_failure_data.metadata["error"].value == "GateError"
    assert not [event for event in result.all_events if event.is_step_up_for_retry]
    assert not (tmp_path / "home" / "started-2022-04-27").exists()
    (outcome,) = (tmp_path / "home" / "trainer").glob("*.json")
    assert [report["date"] for report in json.loads(outcome.read_text())["reports"]] == ["2022-04-25"]


def test_a_killed_trainer_is_started_again_and_goes_on(tmp_path):
    result, told = launch(tmp_path / "home", "crash_once")
    assert result.success
    assert [report["date"] for report in told] == list(DATES)


RUN = """
import sys; sys.path.insert(0, sys.argv[1])
from pathlib import Path
from tests.resources.test_launcher import launch
launch(Path(sys.argv[2]), "stuck")
"""


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGKILL])
def test_the_trainer_ends_with_the_run_that_started_it(tmp_path, sent):
    home, root = tmp_path / "home", Path(__file__).parents[2]
    run = subprocess.Popen([sys.executable, "-c", RUN, str(root), str(home)], stderr=subprocess.DEVNULL)
    try:
        trainer = int(wait_for(home / "started-2022-04-25"))
        run.send_signal(sent)
        run.wait(timeout=20)
        deadline = time.monotonic() + 10
        while alive(trainer) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not alive(trainer)
        assert not (home / "started-2022-04-26").exists()
    finally:
        run.kill()


def wait_for(path: Path) -> str:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        if path.exists() and (text := path.read_text()):
            return text
        time.sleep(0.05)
    return pytest.fail(f"{path} did not appear")


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z" if Path(f"/proc/{pid}").exists() else False
