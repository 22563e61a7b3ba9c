"""Calibration ratio and ECE."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

from gem_pipeline.errors import ConfigError
from gem_pipeline.metrics.calibration import calibration, expected_calibration_error
from gem_pipeline.metrics.state import MetricState
from tests.metrics.scored_rows import Rows, simulated_rows, small_rows


def test_calibration_is_mean_prediction_over_mean_label() -> None:
    assert calibration([1, 0, 0, 1], [0.9, 0.3, 0.2, 0.8]) == pytest.approx(1.1)
    assert calibration([1, 0], [0.5, 0.5], [1.0, 3.0]) == pytest.approx(2.0)


def test_calibration_without_positives_or_rows_is_a_state() -> None:
    assert calibration([0, 0], [0.1, 0.2]) is MetricState.ONE_CLASS
    assert calibration([], []) is MetricState.NO_ROWS
    assert expected_calibration_error([], []) is MetricState.NO_ROWS


@given(small_rows(min_size=1))
def test_ece_lies_between_the_overall_gap_and_the_mean_error(rows: Rows) -> None:
    ece = expected_calibration_error(rows.label_N, rows.prob_N)
    assert isinstance(ece, float)
    assert ece >= abs(rows.prob_N.mean() - rows.label_N.mean()) - 1e-12
    assert ece <= np.abs(rows.prob_N - rows.label_N).mean() + 1e-12


def test_ece_tells_an_overconfident_model_from_a_calibrated_one() -> None:
    rows, logit_N = simulated_rows(1)
    honest = expected_calibration_error(rows.label_N, 1 / (1 + np.exp(-logit_N)))
    boastful = expected_calibration_error(rows.label_N, 1 / (1 + np.exp(-3.0 * logit_N)))
    assert isinstance(honest, float)
    assert isinstance(boastful, float)
    assert honest < 0.04
    assert boastful > 0.1


def test_equal_predictions_share_a_bin() -> None:
    assert expected_calibration_error([1, 0, 1, 0], [0.5] * 4) == pytest.approx(0.0)


def test_ece_with_one_bin_is_the_overall_gap_and_without_a_bin_refused() -> None:
    assert expected_calibration_error([1, 0], [0.9, 0.3], num_bins=1) == pytest.approx(0.1)
    with pytest.raises(ConfigError, match="0 bins"):
        expected_calibration_error([1, 0], [0.9, 0.3], num_bins=0)
