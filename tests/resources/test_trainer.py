"""The trainer's entry without Dagster; with it, see test_launcher."""

from __future__ import annotations

import json
import sys
import types

import pytest

from gem_pipeline.errors import GateError
from gem_pipeline.training.plan import DayPlan
from resources.trainer import main


@pytest.fixture
def plans(tmp_path):
    path = tmp_path / "plans.json"
    dates = ("2022-04-25", "2022-04-26")
    made = [DayPlan(date=date, previous_date=None, contract_path="c", home=str(tmp_path)) for date in dates]
    path.write_text(json.dumps([plan.to_dict() for plan in made]))
    return path


@pytest.fixture
def trained(monkeypatch) -> list[str]:
    """Dates that the stand-in for the training was asked for."""
    dates: list[str] = []

    def train_day(plan, tracker, progress):
        if plan.date == "2022-04-26" and dates[-1:] == ["refuse"]:
            raise GateError("No gate.", remedy="Make one.")
        dates.append(plan.date) if "refuse" not in dates else None
        return types.SimpleNamespace(to_dict=lambda: {"date": plan.date})

    day, tracker = types.ModuleType("gem_pipeline.runs.day"), types.ModuleType("resources.tracker")
    day.train_day = train_day
    tracker.MlflowTracker = lambda *_, **__: types.SimpleNamespace(sweep=lambda: 0)
    monkeypatch.setitem(sys.modules, "gem_pipeline.runs.day", day)
    monkeypatch.setitem(sys.modules, "resources.tracker", tracker)
    return dates


def outcome(plans) -> dict[str, object]:
    return json.loads(plans.with_suffix(".outcome.json").read_text())


def test_plans_of_a_file_are_worked_off_in_order(plans, trained):
    assert main([str(plans)]) == 0
    assert trained == ["2022-04-25", "2022-04-26"]
    assert outcome(plans) == {"error": None, "reports": [{"date": "2022-04-25"}, {"date": "2022-04-26"}]}


def test_a_typed_error_is_the_exit_code_and_stands_in_the_outcome_with_what_was_done(plans, trained):
    trained.append("refuse")
    assert main([str(plans)]) == GateError.exit_code
    assert outcome(plans) == {
        "error": {"type": "GateError", "message": "No gate.", "remedy": "Make one."},
        "reports": [{"date": "2022-04-25"}],
    }


def test_without_plans_and_without_dagster_it_says_what_it_needs(capsys):
    with pytest.raises(SystemExit):
        main([])
    assert "name a file of plans" in capsys.readouterr().err
