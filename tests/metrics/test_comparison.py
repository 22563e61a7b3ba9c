"""Paired differences of NE: narrower than unpaired ones, pooled over seeds, honest about no difference."""

from __future__ import annotations

import numpy as np
import pytest

from gem_pipeline.errors import ConfigError
from gem_pipeline.metrics.cell import CellRule, evaluate_models
from gem_pipeline.metrics.comparison import relative_ne_difference
from gem_pipeline.metrics.intervals import BootstrapConfig
from gem_pipeline.metrics.ne import normalized_entropy
from gem_pipeline.metrics.state import Estimate, MetricState
from tests.metrics.scored_rows import sigmoid, simulated_rows

CONFIG = BootstrapConfig(resamples=400, auc_resamples=20)


def test_value_is_the_relative_difference_of_ne() -> None:
    rows, logit_N = simulated_rows(4)
    found = relative_ne_difference(rows.label_N, sigmoid(logit_N), rows.prob_N, rows.user_N, config=CONFIG).relative
    model, baseline = normalized_entropy(rows.label_N, sigmoid(logit_N)), normalized_entropy(rows.label_N, rows.prob_N)
    assert isinstance(found, Estimate)
    assert isinstance(model, float)
    assert isinstance(baseline, float)
    assert found.value == pytest.approx(model / baseline - 1.0)
    assert found.low <= found.value <= found.high


def test_paired_interval_is_narrower_than_unpaired_on_correlated_models() -> None:
    rows, logit_N = simulated_rows(5)
    cells = evaluate_models(
        rows.label_N, {"a": sigmoid(logit_N), "b": rows.prob_N}, rows.user_N, config=CONFIG, rule=CellRule()
    )
    widths = [ne.high - ne.low for ne in (cells["a"].ne, cells["b"].ne) if isinstance(ne, Estimate)]
    paired = relative_ne_difference(rows.label_N, sigmoid(logit_N), rows.prob_N, rows.user_N, config=CONFIG).relative
    assert isinstance(paired, Estimate)
    unpaired_width = np.hypot(*widths) / cells["b"].ne.value  # type: ignore[union-attr]
    assert paired.high - paired.low < 0.5 * unpaired_width


def test_better_and_not_worse_follow_the_whole_interval() -> None:
    rows, logit_N = simulated_rows(6)
    label_N, user_N, noise_N = rows.label_N, rows.user_N, np.random.default_rng(0).normal(size=rows.label_N.size)
    good = relative_ne_difference(label_N, sigmoid(logit_N), sigmoid(logit_N + noise_N), user_N, config=CONFIG)
    same = relative_ne_difference(label_N, rows.prob_N, rows.prob_N, user_N, config=CONFIG)
    bad = relative_ne_difference(label_N, sigmoid(logit_N + noise_N), sigmoid(logit_N), user_N, config=CONFIG)
    assert good.better()
    assert good.not_worse_than(0.0)
    assert not same.better()
    assert same.not_worse_than(0.002)
    assert not bad.not_worse_than(0.002)


def test_seeds_are_pooled_and_their_spread_widens_the_interval() -> None:
    rows, logit_N = simulated_rows(7)
    shift_S = np.array([-0.6, 0.0, 0.6])
    model_SN = sigmoid(logit_N[None, :] + shift_S[:, None])
    baseline_SN = np.repeat(rows.prob_N[None, :], 3, axis=0)
    pooled = relative_ne_difference(rows.label_N, model_SN, baseline_SN, rows.user_N, config=CONFIG)
    single = relative_ne_difference(rows.label_N, model_SN[1], rows.prob_N, rows.user_N, config=CONFIG)
    assert pooled.num_seeds == 3
    assert pooled.num_rows == rows.label_N.size
    assert isinstance(pooled.relative, Estimate)
    assert isinstance(single.relative, Estimate)
    each = [
        relative_ne_difference(rows.label_N, model_N, rows.prob_N, rows.user_N, config=CONFIG).relative
        for model_N in model_SN
    ]
    assert pooled.relative.value == pytest.approx(np.mean([e.value for e in each if isinstance(e, Estimate)]))
    assert pooled.relative.high - pooled.relative.low > single.relative.high - single.relative.low


def test_fixed_seed_gives_the_identical_interval_and_row_order_does_not_matter() -> None:
    rows, logit_N = simulated_rows(8)
    order_N = np.random.default_rng(0).permutation(rows.label_N.size)
    first = relative_ne_difference(rows.label_N, sigmoid(logit_N), rows.prob_N, rows.user_N, config=CONFIG)
    again = relative_ne_difference(rows.label_N, sigmoid(logit_N), rows.prob_N, rows.user_N, config=CONFIG)
    other = rows.take(order_N)
    shuffled = relative_ne_difference(
        other.label_N, sigmoid(logit_N)[order_N], other.prob_N, other.user_N, config=CONFIG
    )
    assert first == again
    assert isinstance(first.relative, Estimate)
    assert isinstance(shuffled.relative, Estimate)
    assert shuffled.relative.low == pytest.approx(first.relative.low, rel=1e-9)
    assert shuffled.relative.high == pytest.approx(first.relative.high, rel=1e-9)


def test_no_rows_and_one_class_are_states() -> None:
    empty = relative_ne_difference([], np.zeros((1, 0)), np.zeros((1, 0)), [], config=CONFIG)
    assert empty.relative is MetricState.NO_ROWS
    one_class = relative_ne_difference([1, 1], [0.5, 0.5], [0.4, 0.4], [1, 2], config=CONFIG)
    assert one_class.relative is MetricState.ONE_CLASS
    assert not one_class.better()
    assert not one_class.not_worse_than(1.0)
    assert one_class.to_dict()["relative"] == {"state": "one_class"}


def test_unpaired_seeds_are_refused() -> None:
    with pytest.raises(ConfigError, match="2 seeds of the model against 1"):
        relative_ne_difference([0, 1], [[0.1, 0.2], [0.1, 0.2]], [0.1, 0.2], [1, 2], config=CONFIG)
