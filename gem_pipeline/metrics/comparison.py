"""Is one model better than another on the same rows? Paired differences of normalized entropy.

The entropy of the base rate cancels, so the relative difference of NE equals that of the mean log loss. Pooling
over seeds is ours.
S seeds, N rows, U users, R replicates.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from gem_pipeline.errors import ConfigError
from gem_pipeline.metrics.intervals import BootstrapConfig, percentile_interval, resampled_sums
from gem_pipeline.metrics.ne import log_losses
from gem_pipeline.metrics.rows import FloatArray, IntArray, checked_labels, checked_probs, user_positions
from gem_pipeline.metrics.state import Estimate, MetricState, metric_to_json


@dataclass(frozen=True, kw_only=True, slots=True)
class NeDifference:
    """Relative NE of a model against a baseline on the same rows; negative is better.

    Attributes:
        relative: (NE - NE of the baseline) / NE of the baseline with its interval, or why there is none.
        num_rows: rows, each counted once whatever the number of seeds.
        num_positives: positive rows.
        num_seeds: pairs of runs.
    """

    relative: Estimate | MetricState
    num_rows: int
    num_positives: int
    num_seeds: int

    def to_dict(self) -> dict[str, object]:
        """Plain JSON-ready form."""
        return {
            "relative": metric_to_json(self.relative),
            "num_rows": self.num_rows,
            "num_positives": self.num_positives,
            "num_seeds": self.num_seeds,
        }

    def not_worse_than(self, margin: float) -> bool:
        """Non-inferiority: the whole interval lies at or below a relative margin, for example 0.002."""
        return isinstance(self.relative, Estimate) and self.relative.high <= margin

    def better(self) -> bool:
        """Superiority: the whole interval lies below zero."""
        return isinstance(self.relative, Estimate) and self.relative.high < 0.0


def relative_ne_difference(
    label_N: ArrayLike,
    model_SN: ArrayLike,
    baseline_SN: ArrayLike,
    user_N: ArrayLike,
    *,
    config: BootstrapConfig,
) -> NeDifference:
    """Compare two models, pooled over seeds, with a bootstrap over users and over pairs of seeds.

    A replicate draws users (Poisson weights) and, where there are several, seeds with replacement: the interval
    covers which users came and which seed was drawn. Few seeds understate the latter (by about (S - 1) / S).

    Args:
        label_N: 0 or 1, shape [N].
        model_SN: probabilities of the model, [N] or one row a seed [S, N].
        baseline_SN: probabilities of the baseline, same shape; seed s is paired with seed s.
        user_N: the user of each row, shape [N].
        config: replicates, level and seed.

    Returns:
        The relative difference; state `no_rows`, or `one_class` where NE has no meaning.

    Raises:
        ConfigError: shapes differ, or a value breaks its rule.
    """
    labels_N = checked_labels(label_N)
    models_SN = _per_seed(model_SN, num_rows=labels_N.size)
    baselines_SN = _per_seed(baseline_SN, num_rows=labels_N.size)
    position_N, num_users = user_positions(user_N, num_rows=labels_N.size)
    if len(models_SN) != len(baselines_SN):
        raise ConfigError(
            f"{len(models_SN)} seeds of the model against {len(baselines_SN)} of the baseline.",
            remedy="Pair each run with a baseline run of the same seed; repeat a baseline that has one run only.",
        )
    num_seeds, num_positives = len(models_SN), int(labels_N.sum())
    if labels_N.size == 0 or num_positives in (0, labels_N.size):
        state = MetricState.ONE_CLASS if labels_N.size else MetricState.NO_ROWS
        return NeDifference(relative=state, num_rows=labels_N.size, num_positives=num_positives, num_seeds=num_seeds)
    sums_US = np.stack(
        [user_sums(log_losses(labels_N, row_N), position_N, num_users) for row_N in (*models_SN, *baselines_SN)],
        axis=1,
    )
    totals_S = sums_US.sum(axis=0)
    value = float(totals_S[:num_seeds].sum() / totals_S[num_seeds:].sum() - 1.0)
    sums_RS = resampled_sums(sums_US, config=config)
    picks_RS = _seed_weights(num_seeds, config)
    with np.errstate(invalid="ignore", divide="ignore"):  # a replicate without any user has no ratio
        relative_R = (sums_RS[:, :num_seeds] * picks_RS).sum(axis=1) / (sums_RS[:, num_seeds:] * picks_RS).sum(axis=1)
    return NeDifference(
        relative=percentile_interval(value, relative_R - 1.0, level=config.level),
        num_rows=labels_N.size,
        num_positives=num_positives,
        num_seeds=num_seeds,
    )


def user_sums(value_N: FloatArray, position_N: IntArray, num_users: int) -> FloatArray:
    """Sum of the rows of each user, [U]."""
    return np.bincount(position_N, weights=value_N, minlength=num_users).astype(np.float64)


def _per_seed(prob_SN: ArrayLike, *, num_rows: int) -> list[FloatArray]:
    probs_SN = np.atleast_2d(np.asarray(prob_SN, dtype=np.float64))
    return [checked_probs(row_N, num_rows=num_rows) for row_N in probs_SN]


def _seed_weights(num_seeds: int, config: BootstrapConfig) -> FloatArray:
    """Times that each replicate drew each seed, [R, S]."""
    generator = np.random.default_rng((config.seed, num_seeds))
    shares_S = np.full(num_seeds, 1.0 / num_seeds)
    return generator.multinomial(num_seeds, shares_S, size=config.resamples).astype(np.float64)
