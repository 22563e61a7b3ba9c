"""Points: one line a finished cell in `benchmarks/points/scaling.jsonl`, which is all that fits and figures read."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._lines import ROOT
from benchmarks.scaling_study.plan import SURFACES, Planned
from benchmarks.trials.cells import Cell, load, run_trial, training_flops
from benchmarks.trials.homes import KUAIRAND, Log, derived
from benchmarks.trials.judging import judged_rows
from benchmarks.trials.movies import MOVIES
from benchmarks.trials.truth import true_clicks
from gem_pipeline.metrics.ne import LogLossSums, expected_log_loss_sums, log_loss_sums

POINTS = ROOT / "benchmarks" / "points" / "scaling.jsonl"
OBJECTIVES = {KUAIRAND: ("click", "long_view"), MOVIES: ("like", "love")}  # of real logs

Point = dict[str, Any]


def read(file: Path) -> list[Point]:
    """All points of a file; none where it is not there."""
    return [json.loads(text) for text in file.read_text(encoding="utf-8").splitlines() if text] if file.exists() else []


def append(file: Path, point: Point) -> None:
    """Add a line."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a", encoding="utf-8") as target:
        target.write(json.dumps(point) + "\n")


def missing(cells: Iterable[Planned], points: Iterable[Point]) -> list[Planned]:
    """Cells without a line, in order."""
    known = {(point["axis"], point["key"]) for point in points}
    return [cell for cell in cells if cell.key not in known]


def measure(cell: Planned) -> Point:
    """Train a cell where its scores are not there, and judge them."""
    if not cell.trial.is_done:
        run_trial(cell.trial)
    done = load(cell.trial)
    facts = done.facts
    return {
        "axis": cell.axis, "log": cell.trial.log, "architecture": cell.architecture, "size": cell.size,
        "days": cell.days, "history": cell.history, "num_surfaces": cell.num_surfaces, "seed": cell.trial.seed,
        "dense_lr": dict(cell.trial.training)["dense_lr"],
        "parameters": facts["parameters"]["dense"], "embedding": facts["parameters"]["embedding"],
        "examples": facts["examples"], "flops_per_example": facts["flops_per_example"],
        "compute": training_flops(facts), **judged(done, first_surface=cell.axis == SURFACES),
        "seconds": round(facts["seconds"], 1), "train_seconds": round(facts["train_seconds"], 1),
        "commit": facts["commit"], "key": cell.trial.key,
    }  # fmt: skip


def judged(cell: Cell, *, first_surface: bool) -> Point:
    """NE of a cell: by labels on a real log, by true click probabilities with their floor on a world.

    `ne` is what laws are fitted to: two objectives pooled (their losses over their entropies) on a real log, the true
    NE of clicks on a world.

    Args:
        cell: a finished trial.
        first_surface: judge the rows of the trial's first surface only.
    """
    trial = cell.trial
    contract, rows = derived(Log.parse(trial.log)), judged_rows(trial.log, trial.judged)
    names = [objective.name for objective in contract.objectives]
    chosen_N = np.ones(len(rows.surface_N), dtype=np.bool_)
    if first_surface:
        chosen_N = rows.surface_N == contract.surfaces.index(trial.surfaces[0])
    if trial.log not in OBJECTIVES:
        true_N = true_clicks(trial.log, trial.judged)[chosen_N]
        prob_N = cell.prob_NK[chosen_N, names.index("click")].astype(np.float64)
        true_ne, floor = (expected_log_loss_sums(true_N, p_N).normalized_entropy() for p_N in (prob_N, true_N))
        return {"ne": float(true_ne), "ne_by_objective": {"click": float(true_ne)}, "floor": float(floor)}
    by_objective: dict[str, LogLossSums] = {}
    for name in OBJECTIVES[trial.log]:
        column = names.index(name)
        mask_N = rows.mask_NK[:, column] & chosen_N
        by_objective[name] = log_loss_sums(
            rows.label_NK[mask_N, column], cell.prob_NK[mask_N, column].astype(np.float64)
        )
    told = {name: float(sums.normalized_entropy()) for name, sums in by_objective.items()}
    loss = sum(sums.loss for sums in by_objective.values())
    entropy = sum(sums.entropy for sums in by_objective.values())
    return {"ne": loss / entropy, "ne_by_objective": told, "floor": None}
