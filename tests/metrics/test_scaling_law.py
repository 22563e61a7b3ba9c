"""Known laws are found again, intervals hold them, and too few points are refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gem_pipeline.errors import ConfigError
from gem_pipeline.metrics.intervals import BootstrapConfig
from gem_pipeline.metrics.scaling_law import fit_log_law, fit_size_data_law, ratio_of_etas

QUICK = BootstrapConfig(resamples=200, auc_resamples=20)
FEW = BootstrapConfig(resamples=20, auc_resamples=20)
SIZES, AMOUNTS = np.geomspace(1e4, 1e7, 5), np.geomspace(1e4, 1e6, 4)
GRID_N, GRID_D = (x.ravel() for x in np.meshgrid(SIZES, AMOUNTS, indexing="ij"))
COMPUTES = np.geomspace(1e10, 1e14, 6)


def log_law(compute, eta=0.004, ne0=0.85):
    return ne0 - eta * np.log(compute / np.exp(np.log(COMPUTES).mean()))


def size_data_law(n, d, a=0.4, b=0.3):
    return 0.8 + 0.03 * (n / 3e5) ** -a + 0.05 * (d / 1e5) ** -b


@settings(max_examples=20)
@given(st.floats(-0.05, 0.05), st.floats(0.3, 1.2))
def test_a_line_without_noise_is_found_again_with_an_interval_of_no_width(eta, ne0):
    law = fit_log_law(COMPUTES, log_law(COMPUTES, eta, ne0), config=FEW)
    assert (law.eta, law.ne0) == pytest.approx((eta, ne0), abs=1e-9)
    assert (law.eta_interval.low, law.eta_interval.high) == pytest.approx((eta, eta), abs=1e-9)
    assert law.prediction(1e15).value == pytest.approx(log_law(1e15, eta, ne0))


def test_the_slope_is_that_of_textbook_regression():
    rng = np.random.default_rng(1)
    compute = rng.uniform(1e9, 1e12, 12)
    ne = rng.uniform(0.8, 0.9, 12)
    slope, _ = np.polyfit(np.log(compute), ne, 1)
    assert fit_log_law(compute, ne, config=FEW).eta == pytest.approx(-slope)


@pytest.mark.parametrize("seeds", [1, 3])
def test_intervals_hold_the_truth_about_as_often_as_they_say(seeds):
    rng = np.random.default_rng(0)
    compute, unseen, held, told = np.tile(COMPUTES, seeds), 1e15, 0, 0
    for _ in range(200):
        law = fit_log_law(compute, log_law(compute) + rng.normal(0, 0.002, compute.size), config=QUICK)
        held += law.eta_interval.low <= 0.004 <= law.eta_interval.high
        told += law.prediction(unseen).low <= log_law(unseen) + rng.normal(0, 0.002) <= law.prediction(unseen).high
    assert held >= 175
    assert told >= 175


@settings(max_examples=20)
@given(st.floats(1e9, 1e15), st.floats(1.1, 100.0))
def test_a_fit_with_eta_above_zero_falls_with_compute(compute, times):
    law = fit_log_law(COMPUTES, log_law(COMPUTES), config=FEW)
    assert law.at(compute * times) < law.at(compute)


def test_efficiency_is_the_ratio_of_etas():
    own, other = (fit_log_law(COMPUTES, log_law(COMPUTES, eta), config=QUICK) for eta in (0.006, 0.003))
    assert ratio_of_etas(own, other).value == pytest.approx(2.0)
    assert ratio_of_etas(own, own).value == pytest.approx(1.0)


def test_efficiency_over_an_architecture_that_may_not_scale_has_no_upper_end():
    flat = fit_log_law(COMPUTES, 0.85 + 0.002 * np.array([1, -1, 1, -1, 1, -1]), config=QUICK)
    own = fit_log_law(COMPUTES, log_law(COMPUTES), config=QUICK)
    assert ratio_of_etas(own, flat).high == np.inf


def test_a_law_of_size_and_data_without_noise_is_found_again():
    law = fit_size_data_law(GRID_N, GRID_D, size_data_law(GRID_N, GRID_D), config=FEW)
    assert law.floor.value == pytest.approx(0.8, abs=1e-4)
    assert law.size_exponent.value == pytest.approx(0.4, abs=1e-2)
    assert law.data_exponent.value == pytest.approx(0.3, abs=1e-2)
    assert law.prediction(3e7, 3e6).value == pytest.approx(size_data_law(3e7, 3e6), abs=1e-4)


def test_the_fitted_law_falls_with_size_and_with_data_whatever_the_points():
    rng = np.random.default_rng(3)
    law = fit_size_data_law(GRID_N, GRID_D, rng.uniform(0.8, 0.9, GRID_N.size), config=FEW)
    assert law.at(1e8, 1e5) <= law.at(1e5, 1e5)
    assert law.at(1e5, 1e8) <= law.at(1e5, 1e5)


def test_the_interval_of_an_exponent_holds_it():
    noise = np.random.default_rng(4).normal(0, 5e-4, GRID_N.size)
    law = fit_size_data_law(GRID_N, GRID_D, size_data_law(GRID_N, GRID_D) + noise, config=FEW)
    assert law.data_exponent.low <= 0.3 <= law.data_exponent.high
    assert law.data_exponent.low < law.data_exponent.high


@settings(max_examples=10)
@given(st.floats(1e11, 1e16))
def test_the_best_split_is_that_of_a_search_along_equal_compute(compute):
    law = fit_size_data_law(GRID_N, GRID_D, size_data_law(GRID_N, GRID_D), config=FEW)
    split = law.optimal_split(compute, flops_per_pair=6.0)
    sizes = np.geomspace(1e2, 1e11, 40_001)
    best = sizes[np.argmin(law.at(sizes, compute / 6.0 / sizes))]
    assert split.parameters.value == pytest.approx(best, rel=2e-3)
    assert 6.0 * split.parameters.value * split.examples.value == pytest.approx(compute)
    assert split.size_share.value == pytest.approx(0.3 / 0.7, abs=0.02)


def test_the_same_seed_gives_the_same_interval():
    ne = log_law(COMPUTES) + np.random.default_rng(5).normal(0, 0.002, COMPUTES.size)
    first, again = (fit_log_law(COMPUTES, ne, config=QUICK).eta_interval for _ in range(2))
    assert first == again


@pytest.mark.parametrize(
    ("compute", "ne"),
    [([1e9, 1e9, 1e10, 1e10], [0.9, 0.9, 0.8, 0.8]), ([1e9, 1e10], [0.9, 0.8, 0.7]), ([1e9, 1e10, 0], [0.9, 0.8, 0.7]),
     ([1e9, 1e10, 1e11], [0.9, 0.8, np.nan])],
)  # fmt: skip
def test_points_that_make_no_line_are_refused(compute, ne):
    with pytest.raises(ConfigError):
        fit_log_law(compute, ne, config=FEW)


@pytest.mark.parametrize("chosen", [slice(0, 6), GRID_D[0] == GRID_D, GRID_N[0] == GRID_N])
def test_points_that_make_no_surface_are_refused(chosen):
    n, d = GRID_N[chosen], GRID_D[chosen]
    with pytest.raises(ConfigError):
        fit_size_data_law(n, d, size_data_law(n, d), config=FEW)
