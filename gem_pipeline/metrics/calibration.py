"""Calibration: does the mean prediction equal the mean label, over all rows and within score bins.

Ratio: He et al., 2014, section 2. ECE with bins of equal mass: Nixon et al., 2019 ("Measuring calibration
in deep learning"), because equal-width bins put every row of a rare objective into the first bin.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from gem_pipeline.errors import ConfigError
from gem_pipeline.metrics.rows import checked_labels, checked_probs, checked_weights
from gem_pipeline.metrics.state import MetricState


def calibration(label_N: ArrayLike, prob_N: ArrayLike, weight_N: ArrayLike | None = None) -> float | MetricState:
    """Mean prediction over mean label: 1 is calibrated, above 1 over-predicts.

    Args:
        label_N: 0 or 1, shape [N].
        prob_N: predicted probability in [0, 1], shape [N].
        weight_N: importance, at least 0, shape [N]; ones by default.

    Returns:
        Unitless; `one_class` where no positive carries weight, `no_rows` where no row does.

    Raises:
        ConfigError: lengths differ, or a value breaks its rule.
    """
    labels_N = checked_labels(label_N)
    probs_N = checked_probs(prob_N, num_rows=labels_N.size)
    weights_N = checked_weights(weight_N, num_rows=labels_N.size)
    if weights_N.sum() <= 0.0:
        return MetricState.NO_ROWS
    positive = float(weights_N @ labels_N)
    return float(weights_N @ probs_N) / positive if positive > 0.0 else MetricState.ONE_CLASS


def expected_calibration_error(label_N: ArrayLike, prob_N: ArrayLike, *, num_bins: int = 15) -> float | MetricState:
    """Mean gap between prediction and label over bins of equal mass, weighted by the bins' rows.

    Args:
        label_N: 0 or 1, shape [N].
        prob_N: predicted probability in [0, 1], shape [N].
        num_bins: bins at most; equal predictions share a bin, so there may be fewer.

    Returns:
        In [0, 1], 0 is calibrated; `no_rows` where there are none.

    Raises:
        ConfigError: lengths differ, a value breaks its rule, or there is no bin.
    """
    if num_bins < 1:
        raise ConfigError(f"ECE over {num_bins} bins has no meaning.", remedy="Ask for at least one bin.")
    labels_N = checked_labels(label_N)
    probs_N = checked_probs(prob_N, num_rows=labels_N.size)
    if labels_N.size == 0:
        return MetricState.NO_ROWS
    edges = np.quantile(probs_N, np.arange(1, num_bins) / num_bins, method="lower")
    bin_N = np.searchsorted(np.unique(edges), probs_N, side="left")
    gap = np.bincount(bin_N, weights=probs_N - labels_N, minlength=num_bins)
    return float(np.abs(gap).sum() / labels_N.size)
