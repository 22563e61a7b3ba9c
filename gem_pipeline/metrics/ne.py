"""Normalized entropy (He et al., 2014, "Practical lessons from predicting clicks on ads", section 2).

The denominator is the entropy of the evaluated rows' own (weighted) base rate. A constant predictor
therefore reaches 1 only when it guesses that rate exactly; the honest constant predictor knows only
the labels before the evaluated day (`constant_prediction`) and usually lies a little above 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from gem_pipeline.errors import ConfigError
from gem_pipeline.metrics.rows import FloatArray, checked_labels, checked_probs, checked_weights
from gem_pipeline.metrics.state import MetricState

PROB_FLOOR = 1e-7  # a float32 sigmoid saturates at 1 - 6e-8: a certain mistake costs 16 nats, not infinity


@dataclass(frozen=True, kw_only=True, slots=True)
class LogLossSums:
    """Sufficient statistics of normalized entropy; shards merge by adding them.

    Attributes:
        positive: sum of the weights of the positive rows.
        negative: sum of the weights of the negative rows.
        loss: weighted sum of the log losses, in nats.
    """

    positive: float = 0.0
    negative: float = 0.0
    loss: float = 0.0

    def __add__(self, other: LogLossSums) -> LogLossSums:
        return LogLossSums(
            positive=self.positive + other.positive,
            negative=self.negative + other.negative,
            loss=self.loss + other.loss,
        )

    def normalized_entropy(self) -> float | MetricState:
        """Loss over the entropy of the base rate, unitless; or the reason why it has no meaning."""
        if self.positive <= 0.0 and self.negative <= 0.0:
            return MetricState.NO_ROWS
        if self.positive <= 0.0 or self.negative <= 0.0:
            return MetricState.ONE_CLASS
        return self.loss / self.entropy

    @property
    def entropy(self) -> float:
        """Log loss in nats of predicting the own base rate for every row; both classes have weight."""
        return float(total_entropy(np.asarray(self.positive), np.asarray(self.negative)))


def total_entropy(positive: FloatArray, negative: FloatArray) -> FloatArray:
    """Log loss in nats of predicting the own base rate for every row, element by element; both counts above 0."""
    total = positive + negative
    return np.asarray(-(positive * np.log(positive / total) + negative * np.log(negative / total)))


def log_losses(label_N: FloatArray, prob_N: FloatArray) -> FloatArray:
    """Log loss of each row in nats [N]; probabilities are clipped to [1e-7, 1 - 1e-7]."""
    clipped_N = np.clip(prob_N, PROB_FLOOR, 1.0 - PROB_FLOOR)
    return -np.log(np.where(label_N == 1.0, clipped_N, 1.0 - clipped_N))


def log_loss_sums(label_N: ArrayLike, prob_N: ArrayLike, weight_N: ArrayLike | None = None) -> LogLossSums:
    """Sum up one shard.

    Args:
        label_N: 0 or 1, shape [N].
        prob_N: predicted probability in [0, 1], shape [N].
        weight_N: importance, at least 0, shape [N]; ones by default.

    Raises:
        ConfigError: lengths differ, or a value breaks its rule.
    """
    labels_N = checked_labels(label_N)
    probs_N = checked_probs(prob_N, num_rows=labels_N.size)
    weights_N = checked_weights(weight_N, num_rows=labels_N.size)
    return LogLossSums(
        positive=float(weights_N @ labels_N),
        negative=float(weights_N @ (1.0 - labels_N)),
        loss=float(weights_N @ log_losses(labels_N, probs_N)),
    )


def expected_log_loss_sums(true_N: ArrayLike, prob_N: ArrayLike) -> LogLossSums:
    """Sum up one shard by its true probabilities instead of labels: the expectation over labels (ours).

    The entropy that `normalized_entropy` then divides by is that of the rows' expected base rate.

    Args:
        true_N: true probability in [0, 1], shape [N].
        prob_N: predicted probability in [0, 1], shape [N].

    Raises:
        ConfigError: lengths differ, or a value breaks its rule.
    """
    truths_N = checked_probs(true_N, num_rows=np.size(true_N))
    probs_N = checked_probs(prob_N, num_rows=truths_N.size)
    ones_N = np.ones_like(truths_N)
    loss = truths_N @ log_losses(ones_N, probs_N) + (1.0 - truths_N) @ log_losses(0.0 * ones_N, probs_N)
    return LogLossSums(positive=float(truths_N.sum()), negative=float((1.0 - truths_N).sum()), loss=float(loss))


def normalized_entropy(label_N: ArrayLike, prob_N: ArrayLike, weight_N: ArrayLike | None = None) -> float | MetricState:
    """Divide the weighted log loss by the entropy of the rows' own weighted base rate.

    Args:
        label_N: 0 or 1, shape [N].
        prob_N: predicted probability in [0, 1], shape [N].
        weight_N: importance, at least 0, shape [N]; ones by default.

    Returns:
        Unitless: 1.0 is a constant prediction at the rows' base rate, lower is better. A state where
        there are no rows or only one class.

    Raises:
        ConfigError: lengths differ, or a value breaks its rule.
    """
    return log_loss_sums(label_N, prob_N, weight_N).normalized_entropy()


def constant_prediction(base_rate_before: float, *, num_rows: int) -> FloatArray:
    """Predict, for each row of a day, the base rate of the labels known before that day.

    Args:
        base_rate_before: positive share of the labels before the evaluated day, in [0, 1].
        num_rows: rows N of the evaluated day.

    Returns:
        Probabilities [N].

    Raises:
        ConfigError: the rate is NaN or outside [0, 1].
    """
    if not 0.0 <= base_rate_before <= 1.0:
        raise ConfigError(
            f"The base rate {base_rate_before} is not a probability.",
            remedy="Count positives and rows of the days before the evaluated one.",
        )
    return np.full(num_rows, base_rate_before, dtype=np.float64)
