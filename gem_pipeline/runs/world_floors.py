"""How low the NE of each surface and objective of a world can be: given everything, and given the log. Ours.

Both use expected labels, so no label's chance enters. Given everything: the true probability. Given the logged
columns: a bracket. Below lies the truth with the hidden latent integrated out (nothing logged tells of it, all the
rest is taken as known); above lies a regression of the true probability on logged columns and summaries of what was
known before, cross-fitted by users: it can be reached, and with more rows and columns it comes down to the floor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor

from gem_pipeline.datasets.worlds import draws
from gem_pipeline.datasets.worlds.draws import Floats
from gem_pipeline.datasets.worlds.known import Known, known
from gem_pipeline.datasets.worlds.world import Scale, World
from gem_pipeline.metrics.ne import expected_log_loss_sums
from gem_pipeline.metrics.state import MetricState

CLICK = "click"
FOLDS = 3
MIN_ROWS = 300  # that ask for the objective; with fewer the floor is the rows' own


@dataclass(frozen=True, kw_only=True, slots=True)
class Floor:
    """NE floors of a surface and objective, unitless; a state where a cell has too few rows.

    Attributes:
        surface: name of the surface.
        objective: `click`, or a conversion type, clicked or not; over all impressions of the surface, though only
            ads that ask for a type can have it.
        everything: NE of the true probability.
        logged_low: NE of the true probability without the hidden latent.
        logged_high: NE of the cross-fitted regression on logged columns.
        rows: impressions of ads that ask for the objective.
    """

    surface: str
    objective: str
    everything: float | MetricState
    logged_low: float | MetricState
    logged_high: float | MetricState
    rows: int


def floors(world: World, scale: Scale, days: Sequence[int], *, trees: int = 150) -> list[Floor]:
    """Floors of every surface and each objective that it sells, over the logged policy's impressions of some days."""
    told = known(world, scale, days)
    _, surface_N = told.places()
    type_N = told.joined("type_N")
    found = []
    names = [c.name for c in world.conversions]
    for objective in (CLICK, *names):
        asks_N = np.ones(len(type_N), dtype=bool) if objective == CLICK else type_N == names.index(objective)
        prefix = "p_click" if objective == CLICK else "p_convert"
        truth_N, low_N = asks_N * told.joined(prefix), asks_N * told.joined(f"{prefix}_logged")
        high_N = _cross_fitted(told, low_N, np.flatnonzero(asks_N), seed=scale.seed, trees=trees)
        for index, surface in enumerate(world.surfaces):
            if objective != CLICK and objective not in surface.goals:
                continue
            rows, asking = np.flatnonzero(surface_N == index), int((asks_N & (surface_N == index)).sum())
            everything, logged_low, logged_high = (
                _ne(truth_N[rows], guess_N[rows], asking) for guess_N in (truth_N, low_N, high_N)
            )
            found.append(
                Floor(
                    surface=surface.name, objective=objective, everything=everything, logged_low=logged_low,
                    logged_high=logged_high, rows=asking,
                )
            )  # fmt: skip
    return found


def _ne(truth_N: Floats, guess_N: Floats, asking: int) -> float | MetricState:
    if asking < MIN_ROWS:
        return MetricState.TOO_FEW if asking else MetricState.NO_ROWS
    return expected_log_loss_sums(truth_N, guess_N).normalized_entropy()


def _cross_fitted(told: Known, target_N: Floats, rows: np.ndarray, *, seed: int, trees: int) -> Floats:
    """Expected probability given what is known of each row, by models that saw no row of its user, [N]; 0 elsewhere.

    The target leaves the hidden latent out: its expectation given the log is the same, with less noise. Poisson
    regression with the stated probability as exposure: trees learn only what the stated columns do not say.
    """
    guess_N = np.zeros(len(target_N))
    user_N = told.places()[0][rows]
    fold_N = draws.integers(draws.key(seed, 90, user_N), "fold", FOLDS)
    exposure_N, column_NF = told.exposure_N[rows], told.column_NF[rows]
    for fold in range(FOLDS):
        learn, judge = np.flatnonzero(fold_N != fold), np.flatnonzero(fold_N == fold)
        if not len(learn) or not len(judge):
            continue
        model = HistGradientBoostingRegressor(
            loss="poisson", max_iter=trees, learning_rate=0.08, min_samples_leaf=40, l2_regularization=1.0, max_bins=63,
            early_stopping=False, random_state=0,
        )  # fmt: skip
        ratio_N = target_N[rows][learn] / exposure_N[learn]
        model.fit(column_NF[learn], ratio_N, sample_weight=exposure_N[learn])
        guess_N[rows[judge]] = np.clip(model.predict(column_NF[judge]) * exposure_N[judge], 1e-7, 1 - 1e-7)
    return guess_N
