"""Cells become figures: the rows that they scored, and pairs of models on the same rows, seed by seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from benchmarks.trials.cells import Cell
from benchmarks.trials.homes import Log, derived
from gem_pipeline.batches.reader import DayReader
from gem_pipeline.batches.windows import WindowSpec
from gem_pipeline.metrics.cell import CellRule
from gem_pipeline.metrics.intervals import BootstrapConfig
from gem_pipeline.metrics.pooling import Comparison, ComparisonRow, ScoredRows, TableRow, comparison_rows, table_rows
from gem_pipeline.metrics.state import Estimate
from gem_pipeline.training.plan import example_dates

CONFIG = BootstrapConfig()


def log_days(log: str) -> tuple[str, ...]:
    """Days of a log that have impressions, oldest first; derives the log where it is not there yet."""
    source = Log.parse(log)
    return example_dates(derived(source), source.home)


@cache
def judged_rows(log: str, days: tuple[str, ...], as_of: str | None = None) -> ScoredRows:
    """Labels, surfaces and users of some days in storage order; no model has scored them yet."""
    source = Log.parse(log)
    contract = derived(source)
    reader = DayReader(contract, source.home / "lake", window=WindowSpec(max_events=1))
    parts = [part for day in days for part in reader.day(day, as_of=as_of or max(days))]
    return ScoredRows(
        surface_N=np.concatenate([part.surface_N for part in parts]),
        user_N=np.concatenate([part.user_N for part in parts]),
        label_NK=np.concatenate([part.label_NK for part in parts]).astype(np.float64),
        mask_NK=np.concatenate([part.mask_NK for part in parts]),
        prob_by_model={},
    )


def scored(cells: Mapping[str, Sequence[Cell]], *, as_of: str | None = None) -> ScoredRows:
    """The rows with the scores of every model and seed, under `name@seed`."""
    first = next(iter(cells.values()))[0].trial
    rows = judged_rows(first.log, first.judged, as_of)
    probs = {
        f"{name}@{cell.trial.seed}": cell.prob_NK.astype(np.float64) for name, runs in cells.items() for cell in runs
    }
    return ScoredRows(
        surface_N=rows.surface_N, user_N=rows.user_N, label_NK=rows.label_NK, mask_NK=rows.mask_NK, prob_by_model=probs
    )


def against(rows: ScoredRows, log: str, pairs: Sequence[tuple[str, str]]) -> list[ComparisonRow]:
    """Relative NE of pairs of models by surface and objective, pooled over their common seeds."""
    contract = derived(Log.parse(log))
    names = list(rows.prob_by_model)
    wanted = []
    for model, baseline in pairs:
        seeds = [name.rpartition("@")[2] for name in names if name.rpartition("@")[0] == model]
        common = [seed for seed in seeds if f"{baseline}@{seed}" in rows.prob_by_model]
        wanted.append(
            Comparison(
                model=model, baseline=baseline, model_runs=tuple(f"{model}@{seed}" for seed in common),
                baseline_runs=tuple(f"{baseline}@{seed}" for seed in common),
            )
        )  # fmt: skip
    surfaces, objectives = contract.surfaces, tuple(o.name for o in contract.objectives)
    return comparison_rows(rows, wanted, surfaces=surfaces, objectives=objectives, config=CONFIG)


def metrics(rows: ScoredRows, log: str, config: BootstrapConfig = CONFIG) -> list[TableRow]:
    """NE, AUC, GAUC and calibration of every run by surface and objective."""
    contract = derived(Log.parse(log))
    rule = CellRule(min_positives=contract.verticals.min_positives, min_negatives=contract.verticals.min_negatives)
    surfaces, objectives = contract.surfaces, tuple(o.name for o in contract.objectives)
    return table_rows(rows, surfaces=surfaces, objectives=objectives, config=config, rule=rule)


def interval(metric: object) -> dict[str, Any]:
    """Value, low and high of a figure's line, or why there is none."""
    if isinstance(metric, Estimate):
        return {"value": metric.value, "low": metric.low, "high": metric.high}
    return {"value": None, "why": f"state {metric}"}
