"""Intervals: a Poisson bootstrap over users, paired between models.

Rows of one user are not independent, so users are resampled, not rows: each replicate gives every user an
independent Poisson(1) weight (Hanley and MacGibbon, 2006, "Creating non-parametric bootstrap samples using
Poisson frequencies"; Chamandy et al., 2012, for its use at scale). Every metric but AUC is a ratio of sums over
users, so a replicate is one row of a matrix product; AUC reuses one sort of the scores for all replicates.
All metrics and models of a cell see the same weights, which pairs their replicates.

R replicates, U users, N rows, S sums, P positives, M negatives.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import exp, factorial

import numpy as np
from numpy.typing import NDArray

from gem_pipeline.errors import ConfigError
from gem_pipeline.metrics.rows import FloatArray, IntArray
from gem_pipeline.metrics.state import Estimate

_DRAWS = 65_536  # a weight is looked up by 16 random bits
_CHUNK_CELLS = 4_000_000  # replicate x user weights held at once, in bytes


@dataclass(frozen=True, kw_only=True, slots=True)
class BootstrapConfig:
    """How intervals are drawn.

    Attributes:
        resamples: replicates of every metric but AUC.
        auc_resamples: replicates of AUC (each costs a pass over the rows), at most `resamples`.
        level: coverage aimed at.
        seed: the same seed, users and rows give the same interval.
    """

    resamples: int = 1000
    auc_resamples: int = 200
    level: float = 0.95
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0.0 < self.level < 1.0:
            raise ConfigError(f"The interval level {self.level} is not inside (0, 1).", remedy="Use 0.95.")
        if not 20 <= self.auc_resamples <= self.resamples:
            raise ConfigError(
                f"{self.resamples} resamples with {self.auc_resamples} for AUC are not usable.",
                remedy="Take at least 20 for AUC and at least as many for the other metrics.",
            )


def user_weights(*, num_users: int, config: BootstrapConfig) -> Iterator[NDArray[np.uint8]]:
    """Yield Poisson(1) weights in chunks of whole replicates [r, U]; the chunks add up to R replicates."""
    table = _poisson_table()
    generator = np.random.default_rng(config.seed)
    per_chunk = max(1, _CHUNK_CELLS // max(1, num_users))
    for start in range(0, config.resamples, per_chunk):
        num_replicates = min(per_chunk, config.resamples - start)
        draws = np.frombuffer(generator.bytes(2 * num_replicates * num_users), dtype="<u2")
        yield table[draws].reshape(num_replicates, num_users)


def resampled_sums(sums_US: FloatArray, *, config: BootstrapConfig) -> FloatArray:
    """Sums over users under each replicate's weights.

    Args:
        sums_US: per-user sums [U, S].
        config: replicates and seed.

    Returns:
        [R, S].
    """
    parts = [
        weight_RU.astype(np.float64) @ sums_US for weight_RU in user_weights(num_users=len(sums_US), config=config)
    ]
    return np.concatenate(parts)


@dataclass(frozen=True, kw_only=True, slots=True)
class PresortedAuc:
    """Rows sorted once by score, so that the AUC of a replicate takes one pass.

    Attributes:
        positive_user_P: user of each positive.
        negative_user_M: user of each negative, by ascending score.
        first_P: negatives strictly below each positive.
        last_P: negatives below or equal to each positive.
    """

    positive_user_P: IntArray
    negative_user_M: IntArray
    first_P: IntArray
    last_P: IntArray

    @staticmethod
    def from_rows(label_N: FloatArray, score_N: FloatArray, position_N: IntArray) -> PresortedAuc:
        """Sort the negatives and locate the positives among them (checked rows)."""
        positive_N = label_N == 1.0
        order_M = np.argsort(score_N[~positive_N], kind="stable")
        negatives_M = score_N[~positive_N][order_M]
        order_P = np.argsort(score_N[positive_N], kind="stable")  # sorted look-ups touch memory in order
        positives_P = score_N[positive_N][order_P]
        return PresortedAuc(
            positive_user_P=position_N[positive_N][order_P],
            negative_user_M=position_N[~positive_N][order_M],
            first_P=np.searchsorted(negatives_M, positives_P, side="left"),
            last_P=np.searchsorted(negatives_M, positives_P, side="right"),
        )

    def weighted(self, weight_U: FloatArray) -> float:
        """AUC under user weights; NaN where a class carries none."""
        weight_P = weight_U[self.positive_user_P]
        below_M1 = np.zeros(self.negative_user_M.size + 1)
        np.cumsum(weight_U[self.negative_user_M], out=below_M1[1:])
        total = weight_P.sum() * below_M1[-1]
        if total <= 0.0:
            return float("nan")
        return float(weight_P @ (below_M1[self.first_P] + below_M1[self.last_P]) / (2.0 * total))


def resampled_aucs(models: list[PresortedAuc], *, num_users: int, config: BootstrapConfig) -> FloatArray:
    """AUC of each model under each replicate's weights, [auc_resamples, models]; NaN where a class is missing."""
    values: list[list[float]] = []
    for weight_RU in user_weights(num_users=num_users, config=config):
        wanted_RU = weight_RU[: config.auc_resamples - len(values)].astype(np.float64)
        values.extend([model.weighted(weight_U) for model in models] for weight_U in wanted_RU)
        if len(values) == config.auc_resamples:
            break
    return np.asarray(values, dtype=np.float64).reshape(config.auc_resamples, len(models))


def percentile_interval(value: float, replicates_R: FloatArray, *, level: float) -> Estimate:
    """Percentile interval of the replicates, widened where needed to hold the value itself.

    Replicates without a value (a class is missing) are left out; without any the interval is the value.
    """
    defined = replicates_R[np.isfinite(replicates_R)]
    if defined.size == 0:
        return Estimate(value=value, low=value, high=value)
    tail = (1.0 - level) / 2.0
    low, high = np.quantile(defined, [tail, 1.0 - tail])
    return Estimate(value=value, low=min(float(low), value), high=max(float(high), value))


def _poisson_table() -> NDArray[np.uint8]:
    """Poisson(1) counts by 16 random bits: each count takes its share of the 65 536 entries."""
    cumulative = np.cumsum([exp(-1.0) / factorial(count) for count in range(12)])
    return np.searchsorted(cumulative, (np.arange(_DRAWS) + 0.5) / _DRAWS).astype(np.uint8)
