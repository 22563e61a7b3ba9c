"""Settings: explicit values win over the environment, and plans chain the dates of a run."""

from __future__ import annotations

import json

import dagster as dg
import pytest

from gem_pipeline.config.ladder import run_config
from gem_pipeline.errors import PartitionError
from gem_pipeline.runs.context import DayContext
from gem_pipeline.training.plan import DayPlan
from resources.settings import GemSettings


def test_the_environment_is_read_when_asked_and_loses_against_explicit_values(monkeypatch, tmp_path):
    settings = GemSettings()
    monkeypatch.setenv("GEM_HOME", str(tmp_path / "a"))
    assert settings.home_path() == tmp_path / "a"
    assert GemSettings(home=str(tmp_path / "b")).home_path() == tmp_path / "b"


def test_size_and_replayed_days_come_from_the_environment_unless_they_are_named(monkeypatch, tmp_path):
    monkeypatch.setattr("resources.settings.previous_model_date", lambda *_: None)
    monkeypatch.setenv("GEM_SIZE", "small")
    monkeypatch.setenv("GEM_REPLAY_DAYS", "3")
    (told,) = GemSettings(home=str(tmp_path)).plans(["2022-04-25"], ("foundation",))
    (named,) = GemSettings(home=str(tmp_path), size="tiny", replay_days=0).plans(["2022-04-25"], ("foundation",))
    assert [(plan.size, plan.replay_days) for plan in (told, named)] == [("small", 3), ("tiny", 0)]


def test_each_date_of_a_run_starts_from_the_date_before_it(monkeypatch, tmp_path):
    monkeypatch.setattr("resources.settings.previous_model_date", lambda *_: "2022-04-20")
    plans = GemSettings(home=str(tmp_path), seed=3).plans(["2022-04-26", "2022-04-25"], ("foundation",))
    assert [(plan.date, plan.previous_date) for plan in plans] == [
        ("2022-04-25", "2022-04-20"),
        ("2022-04-26", "2022-04-25"),
    ]
    assert {plan.seed for plan in plans} == {3}


def test_a_variant_named_in_the_settings_reaches_every_plan_and_survives_the_way_to_the_trainer(monkeypatch, tmp_path):
    monkeypatch.setattr("resources.settings.previous_model_date", lambda *_: None)
    settings = GemSettings(home=str(tmp_path), size="tiny+light+static_y")
    (plan,) = settings.plans(["2022-04-25"], ("foundation",))
    told = DayPlan.from_dict(json.loads(json.dumps(plan.to_dict())))
    assert DayContext(told).run == run_config("tiny+light+static_y")


def test_a_missing_model_is_a_failure_that_is_not_tried_again(monkeypatch, tmp_path):
    def missing(*_: object) -> None:
        raise PartitionError("Model gem of 2022-04-24 is missing.", remedy="Materialise it.")

    monkeypatch.setattr("resources.settings.previous_model_date", missing)
    with pytest.raises(dg.Failure, match="2022-04-24 is missing") as failure:
        GemSettings(home=str(tmp_path)).plans(["2022-04-25"], ("foundation",))
    assert failure.value.allow_retries is False
