"""A cell: all metrics with intervals, named states, and when it is judged."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings

from gem_pipeline.errors import ConfigError
from gem_pipeline.metrics.calibration import calibration
from gem_pipeline.metrics.cell import CellMetrics, CellRule, evaluate_cell, evaluate_models
from gem_pipeline.metrics.intervals import BootstrapConfig
from gem_pipeline.metrics.ne import normalized_entropy
from gem_pipeline.metrics.ranking import auc, gauc
from gem_pipeline.metrics.state import Estimate, MetricState
from tests.metrics.scored_rows import Rows, simulated_rows, small_rows

CONFIG = BootstrapConfig(resamples=100, auc_resamples=20)
RULE = CellRule()


def metrics_of(cell: CellMetrics) -> list[Estimate | MetricState]:
    return [cell.ne, cell.auc, cell.gauc, cell.calibration]


@settings(max_examples=50)
@given(small_rows())
def test_values_equal_the_plain_metrics_and_lie_in_their_intervals(rows: Rows) -> None:
    cell = evaluate_cell(rows.label_N, rows.prob_N, rows.user_N, config=CONFIG, rule=RULE)
    plain = [
        normalized_entropy(rows.label_N, rows.prob_N),
        auc(rows.label_N, rows.prob_N),
        gauc(rows.label_N, rows.prob_N, rows.user_N),
        calibration(rows.label_N, rows.prob_N),
    ]
    for found, expected in zip(metrics_of(cell), plain, strict=True):
        if isinstance(found, Estimate):
            assert found.value == pytest.approx(expected, rel=1e-9)
            assert found.low <= found.value <= found.high
        else:
            assert found is expected


def test_order_of_rows_is_irrelevant_and_the_seed_fixes_the_interval() -> None:
    rows, _ = simulated_rows(9)
    other = rows.take(np.random.default_rng(0).permutation(rows.label_N.size))
    first = evaluate_cell(rows.label_N, rows.prob_N, rows.user_N, config=CONFIG, rule=RULE)
    assert first == evaluate_cell(rows.label_N, rows.prob_N, rows.user_N, config=CONFIG, rule=RULE)
    shuffled = evaluate_cell(other.label_N, other.prob_N, other.user_N, config=CONFIG, rule=RULE)
    for one, two in zip(metrics_of(first), metrics_of(shuffled), strict=True):
        assert isinstance(one, Estimate)
        assert isinstance(two, Estimate)
        assert (two.value, two.low, two.high) == pytest.approx((one.value, one.low, one.high), rel=1e-9)


def test_users_named_otherwise_in_the_same_order_give_the_same_interval() -> None:
    rows, _ = simulated_rows(10)
    renamed = evaluate_cell(rows.label_N, rows.prob_N, rows.user_N * 7 - 3, config=CONFIG, rule=RULE)
    assert renamed == evaluate_cell(rows.label_N, rows.prob_N, rows.user_N, config=CONFIG, rule=RULE)


def test_a_model_gets_the_same_interval_alone_and_beside_others() -> None:
    rows, _ = simulated_rows(11)
    alone = evaluate_cell(rows.label_N, rows.prob_N, rows.user_N, config=CONFIG, rule=RULE)
    constant_N = np.full(rows.label_N.size, 0.4)
    both = evaluate_models(
        rows.label_N, {"constant": constant_N, "model": rows.prob_N}, rows.user_N, config=CONFIG, rule=RULE
    )
    for one, two in zip(metrics_of(alone), metrics_of(both["model"]), strict=True):
        assert isinstance(one, Estimate)
        assert isinstance(two, Estimate)
        assert (two.value, two.low, two.high) == pytest.approx((one.value, one.low, one.high), rel=1e-9)
    assert both["constant"].auc == Estimate(value=0.5, low=0.5, high=0.5)


def test_a_large_cell_is_judged() -> None:
    rows, _ = simulated_rows(12)
    cell = evaluate_cell(rows.label_N, rows.prob_N, rows.user_N, config=CONFIG, rule=RULE)
    assert cell.state is MetricState.OK
    assert cell.judged
    assert (cell.num_rows, cell.num_users) == (4000, 400)


@pytest.mark.parametrize("rule", [CellRule(min_positives=4000), CellRule(min_negatives=4000), CellRule(min_users=401)])
def test_a_cell_below_the_rule_is_computed_but_not_judged(rule: CellRule) -> None:
    rows, _ = simulated_rows(13)
    cell = evaluate_cell(rows.label_N, rows.prob_N, rows.user_N, config=CONFIG, rule=rule)
    assert cell.state is MetricState.TOO_FEW
    assert not cell.judged
    assert isinstance(cell.ne, Estimate)


def test_one_class_and_no_rows_are_states_without_numbers() -> None:
    positives = evaluate_cell([1, 1], [0.4, 0.6], [1, 2], config=CONFIG, rule=RULE)
    assert positives.state is positives.ne is positives.auc is positives.gauc is MetricState.ONE_CLASS
    assert isinstance(positives.calibration, Estimate)
    negatives = evaluate_cell([0, 0], [0.4, 0.6], [1, 2], config=CONFIG, rule=RULE)
    assert negatives.calibration is MetricState.ONE_CLASS
    empty = evaluate_cell([], [], [], config=CONFIG, rule=RULE)
    assert set(metrics_of(empty)) == {MetricState.NO_ROWS}
    assert empty.ece is MetricState.NO_ROWS


def test_json_form_has_no_nan_and_names_the_state() -> None:
    cell = evaluate_cell([1, 0], [0.4, 0.6], [1, 2], config=CONFIG, rule=RULE)
    document = json.loads(json.dumps(cell.to_dict(), allow_nan=False))
    assert document["state"] == "too_few"
    assert document["judged"] is False
    assert document["gauc"] == {"state": "no_mixed_user"}
    assert document["num_positives"] == 1


def test_bad_rows_and_rules_are_refused() -> None:
    with pytest.raises(ConfigError, match="probabilities"):
        evaluate_cell([0, 1], [0.5, np.nan], [1, 2], config=CONFIG, rule=RULE)
    with pytest.raises(ConfigError, match="at least one"):
        CellRule(min_users=0)


def test_no_model_gives_no_cell() -> None:
    assert evaluate_models([0, 1], {}, [1, 2], config=CONFIG, rule=RULE) == {}
