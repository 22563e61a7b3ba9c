"""One cell of a results table: every metric of one model on one set of rows.

NE divides by the entropy of the evaluated rows' own base rate. A cell is judged only with enough positives,
negatives and users (the rule is ours); below that its values are computed where they are defined, and marked as
not judged.
N rows, U users, S sums, R replicates.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from gem_pipeline.errors import ConfigError
from gem_pipeline.metrics.calibration import expected_calibration_error
from gem_pipeline.metrics.comparison import user_sums
from gem_pipeline.metrics.intervals import (
    BootstrapConfig,
    PresortedAuc,
    percentile_interval,
    resampled_aucs,
    resampled_sums,
)
from gem_pipeline.metrics.ne import log_losses, total_entropy
from gem_pipeline.metrics.ranking import user_aucs
from gem_pipeline.metrics.rows import FloatArray, IntArray, checked_labels, checked_probs, user_positions
from gem_pipeline.metrics.state import Estimate, MetricState, metric_to_json

Metric = Estimate | MetricState


@dataclass(frozen=True, kw_only=True, slots=True)
class CellRule:
    """When a cell is judged.

    Attributes:
        min_positives: positive rows needed.
        min_negatives: negative rows needed.
        min_users: users needed; an interval over fewer is not to be trusted.
    """

    min_positives: int = 300
    min_negatives: int = 300
    min_users: int = 30

    def __post_init__(self) -> None:
        if min(self.min_positives, self.min_negatives, self.min_users) < 1:
            raise ConfigError("A cell needs at least one row of each class and one user.", remedy="Raise the minimum.")


@dataclass(frozen=True, kw_only=True, slots=True)
class CellMetrics:
    """Metrics of one model on one cell; a metric without a value is a named state.

    Attributes:
        state: `ok`, `no_rows`, `one_class`, or `too_few` (computed, not judged).
        ne: normalized entropy against the rows' own base rate; lower is better.
        auc: over all rows of the cell.
        gauc: per user with both classes, weighted by impressions.
        calibration: mean prediction over mean label.
        ece: expected calibration error over 15 bins of equal mass, without an interval.
        num_rows: rows.
        num_positives: positive rows.
        num_users: users.
    """

    state: MetricState
    ne: Metric
    auc: Metric
    gauc: Metric
    calibration: Metric
    ece: float | MetricState
    num_rows: int
    num_positives: int
    num_users: int

    @property
    def judged(self) -> bool:
        """Whether the cell is large enough to draw a conclusion from."""
        return self.state is MetricState.OK

    def to_dict(self) -> dict[str, object]:
        """Plain JSON-ready form; a missing value is `{"state": reason}`."""
        return {
            "state": self.state.value,
            "judged": self.judged,
            "ne": metric_to_json(self.ne),
            "auc": metric_to_json(self.auc),
            "gauc": metric_to_json(self.gauc),
            "calibration": metric_to_json(self.calibration),
            "ece": metric_to_json(self.ece),
            "num_rows": self.num_rows,
            "num_positives": self.num_positives,
            "num_users": self.num_users,
        }


def evaluate_cell(
    label_N: ArrayLike, prob_N: ArrayLike, user_N: ArrayLike, *, config: BootstrapConfig, rule: CellRule
) -> CellMetrics:
    """Evaluate one model on one cell; see `evaluate_models`."""
    return evaluate_models(label_N, {"model": prob_N}, user_N, config=config, rule=rule)["model"]


def evaluate_models(
    label_N: ArrayLike,
    prob_by_model: Mapping[str, ArrayLike],
    user_N: ArrayLike,
    *,
    config: BootstrapConfig,
    rule: CellRule,
) -> dict[str, CellMetrics]:
    """Evaluate several models on the same rows, under the same resampled users.

    Args:
        label_N: 0 or 1, shape [N].
        prob_by_model: predicted probabilities in [0, 1] of each model, shape [N].
        user_N: the user of each row, shape [N].
        config: replicates, level and seed of the intervals.
        rule: when the cell is judged.

    Returns:
        Metrics by model, in the order given.

    Raises:
        ConfigError: lengths differ, or a value breaks its rule.
    """
    labels_N = checked_labels(label_N)
    probs = {name: checked_probs(prob_N, num_rows=labels_N.size) for name, prob_N in prob_by_model.items()}
    position_N, num_users = user_positions(user_N, num_rows=labels_N.size)
    if labels_N.size == 0:
        return {name: without_values(MetricState.NO_ROWS, labels_N, position_N) for name in probs}
    if not probs:
        return {}
    num_positives = int(labels_N.sum())
    sums_US = np.concatenate([_user_sums(labels_N, prob_N, position_N, num_users) for prob_N in probs.values()], axis=1)
    sums_RS = resampled_sums(sums_US, config=config)
    sorted_rows = [PresortedAuc.from_rows(labels_N, prob_N, position_N) for prob_N in probs.values()]
    auc_RM = resampled_aucs(sorted_rows, num_users=num_users, config=config)
    missing = _missing_states(num_positives=num_positives, num_rows=labels_N.size)
    cells = {}
    for index, (name, prob_N) in enumerate(probs.items()):
        columns = slice(index * _NUM_SUMS, (index + 1) * _NUM_SUMS)
        values = {metric: float(row_1[0]) for metric, row_1 in _ratios(sums_US[:, columns].sum(axis=0)[None]).items()}
        replicates = _ratios(sums_RS[:, columns])
        values["auc"], replicates["auc"] = sorted_rows[index].weighted(np.ones(num_users)), auc_RM[:, index]
        metrics = {
            metric: percentile_interval(value, replicates[metric], level=config.level)
            if np.isfinite(value)
            else missing[metric]
            for metric, value in values.items()
        }
        cells[name] = CellMetrics(
            state=_cell_state(num_positives, labels_N.size, num_users, rule),
            ece=expected_calibration_error(labels_N, prob_N),
            num_rows=labels_N.size,
            num_positives=num_positives,
            num_users=num_users,
            **metrics,
        )
    return cells


_NUM_SUMS = 6


def _user_sums(labels_N: FloatArray, prob_N: FloatArray, position_N: IntArray, num_users: int) -> FloatArray:
    """Per user: positives, negatives, log loss, predictions, AUC times its rows, those rows; [U, 6]."""
    auc_U, rows_U = user_aucs(labels_N, prob_N, position_N, num_users=num_users)
    rows = (labels_N, 1.0 - labels_N, log_losses(labels_N, prob_N), prob_N)
    return np.stack([*(user_sums(row_N, position_N, num_users) for row_N in rows), auc_U * rows_U, rows_U], axis=1)


def _ratios(sums_RS: FloatArray) -> dict[str, FloatArray]:
    """Metrics of each row of sums; NaN where one has no meaning."""
    positive_R, negative_R, loss_R, predicted_R, ranked_R, mixed_R = sums_RS.T
    both_R = (positive_R > 0.0) & (negative_R > 0.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        return {
            "ne": np.where(both_R, loss_R / total_entropy(positive_R, negative_R), np.nan),
            "gauc": np.where(mixed_R > 0.0, ranked_R / mixed_R, np.nan),
            "calibration": np.where(positive_R > 0.0, predicted_R / positive_R, np.nan),
        }


def _missing_states(*, num_positives: int, num_rows: int) -> dict[str, MetricState]:
    one_class = num_positives in (0, num_rows)
    return {
        "ne": MetricState.ONE_CLASS,
        "auc": MetricState.ONE_CLASS,
        "gauc": MetricState.ONE_CLASS if one_class else MetricState.NO_MIXED_USER,
        "calibration": MetricState.ONE_CLASS,
    }


def _cell_state(num_positives: int, num_rows: int, num_users: int, rule: CellRule) -> MetricState:
    num_negatives = num_rows - num_positives
    if min(num_positives, num_negatives) == 0:
        return MetricState.ONE_CLASS
    enough = num_positives >= rule.min_positives and num_negatives >= rule.min_negatives and num_users >= rule.min_users
    return MetricState.OK if enough else MetricState.TOO_FEW


def without_values(state: MetricState, label_N: ArrayLike, user_N: ArrayLike) -> CellMetrics:
    """A cell whose every metric is one named state; only its rows are counted."""
    labels_N = checked_labels(label_N)
    _, num_users = user_positions(user_N, num_rows=labels_N.size)
    return CellMetrics(
        state=state,
        ne=state,
        auc=state,
        gauc=state,
        calibration=state,
        ece=state,
        num_rows=labels_N.size,
        num_positives=int(labels_N.sum()),
        num_users=num_users,
    )
