"""Normalized entropy: what it is 1 for, what leaves it unchanged, and when it has no value."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from gem_pipeline.errors import ConfigError
from gem_pipeline.metrics.ne import (
    LogLossSums,
    constant_prediction,
    expected_log_loss_sums,
    log_loss_sums,
    normalized_entropy,
)
from gem_pipeline.metrics.state import MetricState
from tests.metrics.scored_rows import Rows, small_rows


@given(small_rows(min_size=2))
def test_ne_of_the_own_base_rate_is_one(rows: Rows) -> None:
    assume(rows.both_classes)
    own_rate = np.average(rows.label_N, weights=rows.weight_N)
    ne = normalized_entropy(rows.label_N, np.full(rows.label_N.size, own_rate), rows.weight_N)
    assert ne == pytest.approx(1.0, rel=1e-9)


@given(small_rows(min_size=2), st.floats(0.001, 1000.0))
def test_scaling_all_weights_changes_nothing(rows: Rows, scale: float) -> None:
    assume(rows.both_classes)
    scaled = normalized_entropy(rows.label_N, rows.prob_N, rows.weight_N * scale)
    assert scaled == pytest.approx(normalized_entropy(rows.label_N, rows.prob_N, rows.weight_N), rel=1e-9)


@given(small_rows(), st.integers(0, 25))
def test_merged_shards_equal_the_whole(rows: Rows, cut: int) -> None:
    order = np.arange(rows.label_N.size)
    shards = [rows.take(order[:cut]), rows.take(order[cut:])]
    merged = LogLossSums()
    for shard in shards:
        merged = merged + log_loss_sums(shard.label_N, shard.prob_N, shard.weight_N)
    whole = normalized_entropy(rows.label_N, rows.prob_N, rows.weight_N)
    if isinstance(whole, MetricState):
        assert merged.normalized_entropy() is whole
    else:
        assert merged.normalized_entropy() == pytest.approx(whole, rel=1e-9)


@given(small_rows(min_size=2), st.randoms(use_true_random=False))
def test_order_of_rows_is_irrelevant(rows: Rows, random: object) -> None:
    assume(rows.both_classes)
    order = list(range(rows.label_N.size))
    random.shuffle(order)  # type: ignore[attr-defined]
    other = rows.take(np.asarray(order))
    assert normalized_entropy(other.label_N, other.prob_N, other.weight_N) == pytest.approx(
        normalized_entropy(rows.label_N, rows.prob_N, rows.weight_N), rel=1e-9
    )


def test_ne_equals_the_formula_worked_by_hand() -> None:
    loss = -(np.log(0.8) + np.log(0.9) + np.log(0.6) + np.log(0.5)) / 4
    entropy = np.log(2.0)
    assert normalized_entropy([1, 0, 1, 0], [0.8, 0.1, 0.6, 0.5]) == pytest.approx(loss / entropy)


def test_constant_from_before_the_day_is_a_little_worse_than_one() -> None:
    label_N = np.array([1.0] * 30 + [0.0] * 70)
    ne = normalized_entropy(label_N, constant_prediction(0.2, num_rows=100))
    assert isinstance(ne, float)
    assert 1.0 < ne < 1.1


def test_certain_mistake_is_finite() -> None:
    ne = normalized_entropy([1, 0], [0.0, 0.5])
    assert isinstance(ne, float)
    assert np.isfinite(ne)


@pytest.mark.parametrize(
    ("label_N", "state"),
    [([], MetricState.NO_ROWS), ([1, 1], MetricState.ONE_CLASS), ([0], MetricState.ONE_CLASS)],
)
def test_undefined_is_a_named_state(label_N: list[int], state: MetricState) -> None:
    assert normalized_entropy(label_N, [0.5] * len(label_N)) is state


def test_rows_without_weight_are_no_rows() -> None:
    assert normalized_entropy([0, 1], [0.5, 0.5], [0.0, 0.0]) is MetricState.NO_ROWS


@pytest.mark.parametrize(
    ("label_N", "prob_N", "weight_N", "message"),
    [
        ([0, 1], [0.5], None, "1 probabilities for 2 labels"),
        ([0, 1], [0.5, 1.5], None, "1 of 2 probabilities"),
        ([0, 1], [0.5, np.nan], None, "1 of 2 probabilities"),
        ([0, 2], [0.5, 0.5], None, "neither 0 nor 1"),
        ([0, np.nan], [0.5, 0.5], None, "neither 0 nor 1"),
        ([0, 1], [0.5, 0.5], [1.0, -1.0], "weight is negative"),
        ([0, 1], [0.5, 0.5], [1.0], "1 weights for 2 labels"),
        ([[0, 1]], [0.5, 0.5], None, "shape"),
    ],
)
def test_bad_rows_are_refused(label_N: object, prob_N: object, weight_N: object, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        normalized_entropy(label_N, prob_N, weight_N)  # type: ignore[arg-type]


@pytest.mark.parametrize("rate", [-0.1, 1.1, float("nan")])
def test_base_rate_that_is_no_probability_is_refused(rate: float) -> None:
    with pytest.raises(ConfigError, match="not a probability"):
        constant_prediction(rate, num_rows=3)


def test_expected_loss_is_the_mean_over_many_draws_of_labels():
    draw = np.random.default_rng(0)
    true_N, prob_N = draw.uniform(0.05, 0.5, 50), draw.uniform(0.05, 0.5, 50)
    expected = expected_log_loss_sums(true_N, prob_N)
    label_DN = draw.random((20_000, 50)) < true_N
    drawn = log_loss_sums(label_DN.ravel().astype(float), np.tile(prob_N, 20_000))
    assert expected.positive == pytest.approx(drawn.positive / 20_000, rel=0.01)
    assert expected.loss == pytest.approx(drawn.loss / 20_000, rel=0.01)
    assert expected.positive + expected.negative == pytest.approx(50)
