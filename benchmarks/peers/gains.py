"""How much better one model is than another in NE, AUC and GAUC, paired by users and by seeds.

A replicate draws users (Poisson weights, the same for every metric and objective) and pairs of seeds. Over several
objectives a gain is the mean of theirs. Above 0: the model is better. S runs a model, N rows, U users, R replicates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gem_pipeline.metrics.comparison import user_sums
from gem_pipeline.metrics.intervals import (
    BootstrapConfig,
    PresortedAuc,
    percentile_interval,
    resampled_aucs,
    resampled_sums,
)
from gem_pipeline.metrics.ne import log_losses, total_entropy
from gem_pipeline.metrics.pooling import ScoredRows
from gem_pipeline.metrics.ranking import user_aucs
from gem_pipeline.metrics.rows import user_positions
from gem_pipeline.metrics.state import Estimate, MetricState

METRICS = ("ne", "auc", "gauc")
Floats = NDArray[np.float64]
Rows = NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True, slots=True)
class Points:
    """Metrics of one model on one set of rows, mean over its runs; NaN where a class or a mixed user is missing."""

    ne: float
    auc: float
    gauc: float
    calibration: float


def points(rows: ScoredRows, runs: Sequence[str], column: int, chosen_N: Rows) -> Points:
    """Evaluate the runs of a model on the chosen rows with a label."""
    found = [_totals(_Part.of(rows, run, column, chosen_N)) for run in runs]
    ne, auc, gauc, calibration = np.mean(found, axis=0).tolist()
    return Points(ne=ne, auc=auc, gauc=gauc, calibration=calibration)


def gains(
    rows: ScoredRows,
    model: Sequence[str],
    other: Sequence[str],
    columns: Sequence[int],
    chosen_N: Rows,
    *,
    config: BootstrapConfig,
) -> Mapping[str, Estimate | MetricState]:
    """Gains of a model over another one.

    Args:
        rows: the scored rows.
        model: its runs, keys of `rows.prob_by_model`.
        other: runs of the other one, run s is paired with run s.
        columns: objectives, by column.
        chosen_N: rows that count [N].
        config: replicates, level and seed.

    Returns:
        By metric: the relative fall of NE, and the rise of AUC and of GAUC; `one_class` where one has no meaning.
    """
    chosen_N = chosen_N & rows.mask_NK[:, list(columns)].any(axis=1)
    values: dict[str, list[float]] = {metric: [] for metric in METRICS}
    replicates: dict[str, list[Floats]] = {metric: [] for metric in METRICS}
    for column in columns:
        parts = [_Part.of(rows, run, column, chosen_N) for run in (*model, *other)]
        ones_RS = np.ones((1, len(model)))
        found = _differences(np.array([_totals(part)[:3] for part in parts])[None], ones_RS)
        drawn = _differences(_replicates(parts, config), _seed_weights(len(model), config))
        for place, metric in enumerate(METRICS):
            values[metric].append(float(found[0, place]))
            replicates[metric].append(drawn[:, place])
    return {
        metric: percentile_interval(
            float(np.mean(values[metric])), np.mean(replicates[metric], axis=0), level=config.level
        )
        if np.isfinite(values[metric]).all()
        else MetricState.ONE_CLASS
        for metric in METRICS
    }


@dataclass(frozen=True, kw_only=True, slots=True)
class _Part:
    """Labels and probabilities of the rows of one run that count, and their users among all chosen ones."""

    label_n: Floats
    prob_n: Floats
    position_n: NDArray[np.int64]
    num_users: int

    @staticmethod
    def of(rows: ScoredRows, run: str, column: int, chosen_N: Rows) -> _Part:
        """The chosen rows with a label of one objective."""
        position_N, num_users = user_positions(rows.user_N[chosen_N], num_rows=int(chosen_N.sum()))
        known_N = rows.mask_NK[chosen_N, column]
        return _Part(
            label_n=rows.label_NK[chosen_N, column][known_N],
            prob_n=np.asarray(rows.prob_by_model[run])[chosen_N, column][known_N],
            position_n=position_N[known_N],
            num_users=num_users,
        )

    @property
    def by_user(self) -> Floats:
        """Per user: positives, negatives, log loss, predictions, AUC times its rows, those rows; [U, 6]."""
        auc_U, rows_U = user_aucs(self.label_n, self.prob_n, self.position_n, num_users=self.num_users)
        of_rows = (self.label_n, 1.0 - self.label_n, log_losses(self.label_n, self.prob_n), self.prob_n)
        summed = [user_sums(value_n, self.position_n, self.num_users) for value_n in of_rows]
        return np.stack([*summed, auc_U * rows_U, rows_U], axis=1)

    @property
    def sorted(self) -> PresortedAuc:
        """The rows in the order of their scores."""
        return PresortedAuc.from_rows(self.label_n, self.prob_n, self.position_n)


def _ratios(sums_RS: Floats) -> tuple[Floats, Floats, Floats]:
    """NE, GAUC and calibration of rows of sums; NaN where one has no meaning."""
    positive_R, negative_R, loss_R, predicted_R, ranked_R, mixed_R = sums_RS.T
    with np.errstate(invalid="ignore", divide="ignore"):
        both_R = (positive_R > 0) & (negative_R > 0)
        ne_R = np.where(both_R, loss_R / total_entropy(positive_R, negative_R), np.nan)
        return ne_R, ranked_R / mixed_R, predicted_R / positive_R


def _totals(part: _Part) -> tuple[float, float, float, float]:
    """NE, AUC, GAUC and calibration of one run."""
    ne_R, gauc_R, calibration_R = _ratios(part.by_user.sum(axis=0)[None])
    return float(ne_R[0]), part.sorted.weighted(np.ones(part.num_users)), float(gauc_R[0]), float(calibration_R[0])


def _replicates(parts: Sequence[_Part], config: BootstrapConfig) -> Floats:
    """NE, AUC and GAUC of each run under each replicate, [R, runs, 3]; AUC is NaN beyond its own replicates."""
    found_RSM = np.full((config.resamples, len(parts), len(METRICS)), np.nan)
    for place, part in enumerate(parts):
        found_RSM[:, place, 0], found_RSM[:, place, 2], _ = _ratios(resampled_sums(part.by_user, config=config))
    aucs_RS = resampled_aucs([part.sorted for part in parts], num_users=parts[0].num_users, config=config)
    found_RSM[: len(aucs_RS), :, 1] = aucs_RS
    return found_RSM


def _differences(value_RSM: Floats, weight_RS: Floats) -> Floats:
    """Gains in NE, AUC and GAUC of the first half of the runs over the second half, [R, 3]."""
    seeds = weight_RS.shape[1]
    share_RS1 = (weight_RS / weight_RS.sum(axis=1, keepdims=True))[:, :, None]
    model_RM = (value_RSM[:, :seeds] * share_RS1).sum(axis=1)
    other_RM = (value_RSM[:, seeds:] * share_RS1).sum(axis=1)
    gained_RM = model_RM - other_RM
    gained_RM[:, 0] = 1.0 - model_RM[:, 0] / other_RM[:, 0]
    return gained_RM


def _seed_weights(seeds: int, config: BootstrapConfig) -> Floats:
    """Times that each replicate drew each seed, [R, S]."""
    generator = np.random.default_rng((config.seed, seeds))
    return generator.multinomial(seeds, np.full(seeds, 1.0 / seeds), size=config.resamples).astype(np.float64)
