"""The logistic baseline: it learns what is linear, tunes C on the newest day, and survives bad labels."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from gem_pipeline.errors import ConfigError, ModelStoreError
from gem_pipeline.metrics.ne import constant_prediction, normalized_entropy
from gem_pipeline.metrics.state import MetricState
from gem_pipeline.training.logistic import LogisticBaseline, LogisticConfig, fit_logistic, newest_rows
from gem_pipeline.training.logistic_inputs import rows_of_batches
from tests.batches_factory import random_batch, small_layout
from tests.training.logistic_world import OBJECTIVES, simulated_rows, true_logits

CONFIG = LogisticConfig()


@pytest.fixture(scope="module")
def baseline() -> LogisticBaseline:
    return fit_logistic(simulated_rows(0), OBJECTIVES, config=CONFIG)


def test_it_comes_close_to_the_true_rates_and_beats_the_base_rate(baseline: LogisticBaseline) -> None:
    train, test = simulated_rows(0), simulated_rows(1)
    label_N = test.label_NK[:, 0]
    found = normalized_entropy(label_N, baseline.predict(test.inputs)[:, 0])
    ceiling = normalized_entropy(label_N, 1.0 / (1.0 + np.exp(-true_logits(test.inputs))))
    constant = normalized_entropy(
        label_N, constant_prediction(float(train.label_NK[:, 0].mean()), num_rows=label_N.size)
    )
    assert ceiling < found < ceiling + 0.03  # type: ignore[operator]
    assert found < constant - 0.1  # type: ignore[operator]


def test_masked_rows_do_not_matter(baseline: LogisticBaseline) -> None:
    rows = simulated_rows(0)
    spoiled = replace(rows, label_NK=np.where(rows.mask_NK, rows.label_NK, 1.0).astype(np.float32))
    other = fit_logistic(spoiled, OBJECTIVES, config=CONFIG)
    assert np.array_equal(other.models["buy"].weight_C, baseline.models["buy"].weight_C)


def test_same_rows_give_the_same_model(baseline: LogisticBaseline) -> None:
    again = fit_logistic(simulated_rows(0), OBJECTIVES, config=CONFIG)
    assert np.array_equal(again.models["click"].weight_C, baseline.models["click"].weight_C)
    assert again.inverse_penalties == baseline.inverse_penalties


def test_c_is_the_best_of_the_grid_on_the_newest_day(baseline: LogisticBaseline) -> None:
    rows = simulated_rows(0)
    newest_N = rows.day_N == rows.day_N.max()
    losses = {}
    for inverse_penalty in CONFIG.inverse_penalties:
        earlier = replace(rows, mask_NK=rows.mask_NK & ~newest_N[:, None], day_N=np.zeros_like(rows.day_N))
        fitted = fit_logistic(
            earlier, OBJECTIVES, config=CONFIG, inverse_penalties=dict.fromkeys(OBJECTIVES, inverse_penalty)
        )
        prob_N = fitted.predict(rows.inputs)[newest_N, 0]
        losses[inverse_penalty] = normalized_entropy(rows.label_NK[newest_N, 0], prob_N)
    chosen = baseline.models["click"].inverse_penalty
    assert losses[chosen] == pytest.approx(min(losses.values()), abs=1e-4)  # type: ignore[type-var]


def test_a_known_c_is_used_without_tuning(baseline: LogisticBaseline) -> None:
    fitted = fit_logistic(simulated_rows(0), OBJECTIVES, config=CONFIG, inverse_penalties={"click": 0.0123})
    assert fitted.models["click"].inverse_penalty == 0.0123
    assert fitted.models["buy"].inverse_penalty == baseline.models["buy"].inverse_penalty


def test_one_class_is_a_constant_and_no_rows_scores_nothing() -> None:
    rows = simulated_rows(2, num_rows=400)
    rows.label_NK[:, 0] = 0.0
    rows.mask_NK[:, 1] = False
    fitted = fit_logistic(rows, OBJECTIVES, config=CONFIG)
    prob_NK = fitted.predict(rows.inputs)
    assert fitted.models["click"].state is MetricState.ONE_CLASS
    assert fitted.models["buy"].state is MetricState.NO_ROWS
    assert np.allclose(prob_NK[:, 0], 1.0 / 402.0)
    assert np.isnan(prob_NK[:, 1]).all()
    assert fitted.inverse_penalties == {}


def test_too_few_positives_to_tune_takes_the_strongest_penalty() -> None:
    rows = simulated_rows(3, num_rows=600)
    rows.label_NK[:, 0] = 0.0
    rows.label_NK[:5, 0] = 1.0
    fitted = fit_logistic(rows, OBJECTIVES, config=CONFIG)
    assert fitted.models["click"].inverse_penalty == CONFIG.inverse_penalties[0]
    assert fitted.models["click"].state is MetricState.OK


def test_newest_rows_are_the_last_day_or_the_last_fifth_of_one_day() -> None:
    assert newest_rows(np.array([1, 2, 2, 1]), np.zeros(4, dtype=np.int64)).tolist() == [False, True, True, False]
    alone = newest_rows(np.ones(10, dtype=np.int64), np.arange(10)[::-1].copy())
    assert np.flatnonzero(alone).tolist() == [0, 1]
    assert newest_rows(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)).size == 0


def test_stored_baseline_predicts_the_same(baseline: LogisticBaseline, tmp_path: Path) -> None:
    arrays, config = baseline.to_arrays()
    save_file(arrays, tmp_path / "model.safetensors")
    reloaded = LogisticBaseline.from_arrays(load_file(tmp_path / "model.safetensors"), json.loads(json.dumps(config)))
    inputs = simulated_rows(4, num_rows=200).inputs
    assert np.array_equal(reloaded.predict(inputs), baseline.predict(inputs))
    assert reloaded.inverse_penalties == baseline.inverse_penalties


def test_incomplete_or_foreign_store_is_refused(baseline: LogisticBaseline) -> None:
    arrays, config = baseline.to_arrays()
    with pytest.raises(ModelStoreError, match=r"weight\.click"):
        LogisticBaseline.from_arrays({k: v for k, v in arrays.items() if k != "weight.click"}, config)
    with pytest.raises(ModelStoreError, match="do not fit"):
        LogisticBaseline.from_arrays({**arrays, "weight.click": np.zeros(3, dtype=np.float32)}, config)


def test_it_fits_real_batches_end_to_end() -> None:
    layout = small_layout()
    batches = [random_batch(layout, [0, 2, 30] * 20, seed=seed) for seed in range(3)]
    rows = rows_of_batches(batches, layout, day=1)
    prob_NK = fit_logistic(rows, layout.objectives, config=CONFIG).predict(rows.inputs)
    assert prob_NK.shape == (180, 2)
    assert ((prob_NK > 0.0) & (prob_NK < 1.0)).all()


def test_bad_configurations_and_names_are_refused() -> None:
    with pytest.raises(ConfigError, match="must be positive and rise"):
        LogisticConfig(inverse_penalties=(0.1, 0.01))
    with pytest.raises(ConfigError, match="above 0"):
        LogisticConfig(tolerance=0.0)
    with pytest.raises(ConfigError, match="1 objectives for 2"):
        fit_logistic(simulated_rows(5, num_rows=50), ("click",), config=CONFIG)
