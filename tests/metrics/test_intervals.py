"""Bootstrap by user: weights, determinism, agreement with a plain loop, coverage."""

from __future__ import annotations

import numpy as np
import pytest

from gem_pipeline.errors import ConfigError
from gem_pipeline.metrics.intervals import (
    BootstrapConfig,
    PresortedAuc,
    percentile_interval,
    resampled_aucs,
    resampled_sums,
    user_weights,
)
from gem_pipeline.metrics.ranking import auc
from tests.metrics.scored_rows import simulated_rows

CONFIG = BootstrapConfig(resamples=200, auc_resamples=50)


def test_weights_are_poisson_with_mean_and_variance_one() -> None:
    weights = np.concatenate(list(user_weights(num_users=2000, config=CONFIG)))
    assert weights.shape == (200, 2000)
    assert weights.mean() == pytest.approx(1.0, abs=0.01)
    assert weights.var() == pytest.approx(1.0, abs=0.02)


def test_chunks_add_up_to_all_replicates_and_repeat_with_the_seed() -> None:
    first = np.concatenate(list(user_weights(num_users=90_001, config=CONFIG)))
    again = np.concatenate(list(user_weights(num_users=90_001, config=CONFIG)))
    other = np.concatenate(list(user_weights(num_users=90_001, config=BootstrapConfig(resamples=200, seed=1))))
    assert first.shape == (200, 90_001)
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_resampled_sums_equal_a_loop_over_replicates() -> None:
    sums_US = np.random.default_rng(0).normal(size=(40, 3))
    weights = np.concatenate(list(user_weights(num_users=40, config=CONFIG)))
    expected = np.stack([(weight_U[:, None] * sums_US).sum(axis=0) for weight_U in weights])
    assert np.allclose(resampled_sums(sums_US, config=CONFIG), expected)


def test_resampled_auc_equals_the_weighted_auc_of_repeated_rows() -> None:
    rows, _ = simulated_rows(2, num_rows=300, num_users=30)
    prob_N = np.round(rows.prob_N, 1)  # many ties
    presorted = PresortedAuc.from_rows(rows.label_N, prob_N, rows.user_N)
    found = resampled_aucs([presorted], num_users=30, config=CONFIG)
    weights = np.concatenate(list(user_weights(num_users=30, config=CONFIG)))[:50]
    expected = [auc(rows.label_N, prob_N, weight_U[rows.user_N]) for weight_U in weights]
    assert found.shape == (50, 1)
    assert np.allclose(found[:, 0], expected)


def test_interval_of_a_mean_has_the_width_of_theory() -> None:
    value_U = np.random.default_rng(3).normal(loc=5.0, size=2000)
    sums_RS = resampled_sums(np.stack([value_U, np.ones(2000)], axis=1), config=BootstrapConfig())
    interval = percentile_interval(float(value_U.mean()), sums_RS[:, 0] / sums_RS[:, 1], level=0.95)
    expected_width = 2 * 1.96 * value_U.std() / np.sqrt(2000)
    assert interval.high - interval.low == pytest.approx(expected_width, rel=0.12)


def test_interval_holds_the_value_even_where_the_replicates_miss_it() -> None:
    interval = percentile_interval(3.0, np.array([0.0, 1.0, np.nan]), level=0.95)
    assert interval.low <= interval.value <= interval.high
    alone = percentile_interval(3.0, np.array([np.nan]), level=0.95)
    assert (alone.low, alone.high) == (3.0, 3.0)


@pytest.mark.parametrize("change", [{"level": 1.0}, {"auc_resamples": 10}, {"resamples": 100, "auc_resamples": 200}])
def test_unusable_configurations_are_refused(change: dict[str, float]) -> None:
    with pytest.raises(ConfigError):
        BootstrapConfig(**change)  # type: ignore[arg-type]
