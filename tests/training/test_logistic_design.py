"""The design matrix against a dense one built by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gem_pipeline.errors import ConfigError
from gem_pipeline.training.logistic_design import LogisticEncoder
from gem_pipeline.training.logistic_inputs import IdColumn, LogisticInputs
from tests.training.logistic_world import simulated_inputs


def tiny_inputs() -> LogisticInputs:
    return LogisticInputs(
        tokens=(IdColumn(name="ad", length_N=np.array([1, 2, 0]), id_V=np.array([7, 7, 9])),),
        history=(IdColumn(name="event_ad", length_N=np.array([0, 4, 1]), id_V=np.array([5, 5, 3, 8, 5])),),
        surface_N=np.array([0, 1, 1]),
        dense_NF=np.array([[1.0], [2.0], [3.0]], dtype=np.float32),
        num_surfaces=2,
    )


def test_design_equals_the_matrix_worked_by_hand() -> None:
    encoder = LogisticEncoder(
        tokens={"ad": np.array([7, 9])},
        history={"event_ad": np.array([3, 5])},
        mean_F=np.array([2.0], dtype=np.float32),
        spread_F=np.array([0.5], dtype=np.float32),
        num_surfaces=2,
    )
    expected = [
        # ad 7, ad 9 | events 3, 5 | dense | surface 0: one, dense | surface 1: one, dense
        [0.5, 0.0, 0.0, 0.0, -2.0, 0.3, -0.6, 0.0, 0.0],
        [0.25, 0.25, 1.0, 2.0, 0.0, 0.0, 0.0, 0.3, 0.0],
        [0.0, 0.0, 0.0, 4.0, 2.0, 0.0, 0.0, 0.3, 0.6],
    ]
    design = encoder.design(tiny_inputs())
    assert design.shape == (3, encoder.num_columns)
    assert np.allclose(design.toarray(), expected)
    assert design.dtype == np.float32


def test_rare_and_new_ids_have_no_column() -> None:
    inputs = simulated_inputs(np.random.default_rng(0), 200)
    encoder = LogisticEncoder.from_inputs(inputs)
    count = np.bincount(inputs.tokens[0].id_V, minlength=40)
    assert encoder.tokens["ad"].tolist() == np.flatnonzero(count >= 3).tolist()
    strangers = replace(inputs, tokens=(replace(inputs.tokens[0], id_V=np.full(200, 10_000)), *inputs.tokens[1:]))
    num_ads = encoder.tokens["ad"].size
    assert encoder.design(strangers)[:, :num_ads].nnz == 0


def test_constant_and_extreme_dense_inputs_stay_finite_and_bounded() -> None:
    inputs = simulated_inputs(np.random.default_rng(1), 100)
    inputs.dense_NF[:, 1] = 4.0
    encoder = LogisticEncoder.from_inputs(inputs)
    inputs.dense_NF[0, 2] = 1e30
    design = encoder.design(inputs).toarray()
    assert np.isfinite(design).all()
    assert np.abs(design).max() <= 5.0


def test_encoder_returns_from_its_arrays() -> None:
    inputs = simulated_inputs(np.random.default_rng(2), 100)
    encoder = LogisticEncoder.from_inputs(inputs)
    again = LogisticEncoder.from_arrays(*encoder.to_arrays())
    assert np.array_equal(again.design(inputs).toarray(), encoder.design(inputs).toarray())


def test_other_features_are_refused() -> None:
    inputs = simulated_inputs(np.random.default_rng(3), 50)
    encoder = LogisticEncoder.from_inputs(inputs)
    with pytest.raises(ConfigError, match="other features"):
        encoder.design(replace(inputs, history=()))
