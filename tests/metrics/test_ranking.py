"""AUC and GAUC against a pairwise oracle."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gem_pipeline.errors import ConfigError
from gem_pipeline.metrics.ranking import auc, gauc
from gem_pipeline.metrics.state import MetricState
from tests.metrics.scored_rows import Rows, small_rows
from tests.oracles.pairwise_auc import pairwise_auc, pairwise_gauc


@given(small_rows(min_size=1))
def test_auc_equals_the_pairwise_oracle_with_ties_and_weights(rows: Rows) -> None:
    expected = pairwise_auc(rows.label_N.tolist(), rows.prob_N.tolist(), rows.weight_N.tolist())
    found = auc(rows.label_N, rows.prob_N, rows.weight_N)
    if expected is None:
        assert found is MetricState.ONE_CLASS
    else:
        assert found == pytest.approx(expected, abs=1e-12)


@given(small_rows(min_size=1))
def test_gauc_equals_the_pairwise_oracle(rows: Rows) -> None:
    expected = pairwise_gauc(rows.label_N.tolist(), rows.prob_N.tolist(), rows.user_N.tolist())
    found = gauc(rows.label_N, rows.prob_N, rows.user_N)
    if expected is None:
        assert found is (MetricState.NO_MIXED_USER if rows.both_classes else MetricState.ONE_CLASS)
    else:
        assert found == pytest.approx(expected, abs=1e-12)


@given(small_rows(min_size=2), st.floats(0.1, 5.0))
def test_a_monotone_change_of_scale_keeps_the_ranking(rows: Rows, scale: float) -> None:
    grid_N = np.round(rows.prob_N, 3)
    assert auc(rows.label_N, grid_N * scale - 1.0) == auc(rows.label_N, grid_N)


def test_users_with_one_class_do_not_count_in_gauc() -> None:
    label_N, score_N, user_N = [1, 0, 1, 1, 1], [0.9, 0.1, 0.0, 0.0, 0.0], [1, 1, 2, 2, 2]
    assert gauc(label_N, score_N, user_N) == 1.0


def test_gauc_weighs_users_by_their_impressions() -> None:
    label_N, score_N, user_N = [1, 0, 1, 0, 0, 0], [0.9, 0.1, 0.1, 0.5, 0.6, 0.7], [1, 1, 2, 2, 2, 2]
    assert gauc(label_N, score_N, user_N) == pytest.approx(2 / 6)


def test_undefined_rankings_are_named_states() -> None:
    assert auc([], []) is MetricState.NO_ROWS
    assert gauc([], [], []) is MetricState.NO_ROWS
    assert auc([1, 1], [0.1, 0.2]) is MetricState.ONE_CLASS
    assert auc([1, 0], [0.1, 0.2], [1.0, 0.0]) is MetricState.ONE_CLASS
    assert gauc([1, 0], [0.1, 0.2], [1, 2]) is MetricState.NO_MIXED_USER


def test_rows_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ConfigError, match="1 scores for 2 labels"):
        auc([0, 1], [0.5])
    with pytest.raises(ConfigError, match="1 users for 2 labels"):
        gauc([0, 1], [0.5, 0.6], [1])
