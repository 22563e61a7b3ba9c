"""A graph whose library functions are fakes: no Spark, no torch, no log."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import dagster as dg
import pytest

from gem_pipeline.contracts.tables import ALL_DAYS
from gem_pipeline.datasets.landing import LandedPartition
from gem_pipeline.quality.gate import CheckResult
from jobs.graph import build_definitions
from resources.launcher import TrainerLauncher
from resources.settings import GemSettings

VERTICALS = ("tab_1__click", "tab_0__click")


@dataclass(kw_only=True)
class FakePartition:
    """What the derivation reports of a partition."""

    table: str
    date: str
    num_rows: int = 7
    delta_version: int = 0
    fingerprint: str = "f"
    unchanged: bool = False
    quarantined: dict[str, int] = field(default_factory=lambda: {"null_user": 2})
    seconds: float = 0.5
    stats: dict[str, float] = field(default_factory=dict)
    checks: tuple[CheckResult, ...] = (
        CheckResult(name="row_count", passed=True, observed=7),
        CheckResult(name="usual_share", passed=False, severity="WARN", column="surface", unexpected_count=1),
    )


class FakeDerivation:
    """Remembers what was derived, in order."""

    calls: ClassVar[list[tuple[str, tuple[str, ...]]]] = []

    def __init__(self, **_: object) -> None:
        pass

    def __getattr__(self, table: str):
        def derive(dates: tuple[str, ...] = (ALL_DAYS,)) -> list[FakePartition]:
            FakeDerivation.calls.append((table, tuple(dates)))
            return [FakePartition(table=table, date=date, fingerprint=f"{table}-{date}") for date in dates]

        return derive


TRAINER = """
import json, sys
from dagster_pipes import open_dagster_pipes
with open_dagster_pipes() as pipes:
    for plan in pipes.get_extra("plans"):
        names = ["gem", "logistic_regression"] if "foundation" in plan["tasks"] else [
            f"vertical-{key}-{arm}" for key in plan["verticals"] for arm in ("alone", "kd")]
        models = [{"name": name, "date": plan["date"], "model_id": f"{name}-{plan['previous_date']}-{plan['date']}",
                   "metrics": {"loss_last": 0.9}, "seconds": 1.0, "mlflow_run_id": "r", "registered_version": 1,
                   "unchanged": False} for name in names]
        teacher = {"rows": 3, "model_id": "gem-before"} if plan["previous_date"] else {}
        pipes.report_custom_message({"date": plan["date"], "models": models, "teacher_outputs": teacher,
                                     "seconds": {"score": 0.1}})
"""


@pytest.fixture
def settings(tmp_path: Path) -> GemSettings:
    return GemSettings(home=str(tmp_path / "home"))


@pytest.fixture
def graph(monkeypatch: pytest.MonkeyPatch, settings: GemSettings, tmp_path: Path) -> dg.Definitions:
    """Definitions over fakes; `FakeDerivation.calls` tells what was asked of Spark."""
    FakeDerivation.calls.clear()
    monkeypatch.setattr("resources.features.FeatureDerivation.derivation", lambda *_: FakeDerivation())
    monkeypatch.setattr("assets.raw.land_or_find", _landed)
    monkeypatch.setattr("assets.partitions.eligible_verticals", lambda *_: VERTICALS)
    monkeypatch.setattr("resources.settings.previous_model_date", lambda _, __, date: None)
    monkeypatch.setattr("resources.launcher.finished", lambda _: None)
    monkeypatch.setattr("assets.evaluation.scored_dates", lambda *_: ())
    trainer = tmp_path / "trainer.py"
    trainer.write_text(TRAINER, encoding="utf-8")
    return build_definitions(settings, TrainerLauncher(command=[sys.executable, str(trainer)]))


def _landed(_: GemSettings, dates: list[str]) -> list[LandedPartition]:
    return [
        LandedPartition(
            date=date, num_impressions=5, num_engagements=9, version=0, fingerprint=f"raw-{date}", unchanged=False
        )
        for date in dates
    ]
