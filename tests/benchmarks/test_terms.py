"""What a model lacks of a world's truth is found, and what it knows is not missed."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit

from benchmarks.terms import missed, told_ne
from benchmarks.trials.truth import expected_losses


@pytest.fixture(scope="module")
def made():
    rng = np.random.default_rng(0)
    terms = {"known": rng.normal(0, 0.8, 20_000), "unknown": rng.normal(0, 0.5, 20_000), "constant": np.ones(20_000)}
    return terms, expit(sum(terms.values()) - 3.0)


def test_a_term_that_the_model_lacks_is_missed_and_the_others_are_not(made):
    terms, true_N = made
    gains = missed(true_N, expit(terms["known"] - 2.0), terms)
    assert set(gains) == {"known", "unknown", "everything"}
    assert gains["unknown"] > 0.01
    assert abs(gains["known"]) < 2e-3  # the scale of what is known shifts a little where another term is averaged out
    assert gains["everything"] == pytest.approx(gains["unknown"], abs=2e-3)


def test_a_model_that_knows_everything_misses_nothing(made):
    terms, true_N = made
    assert max(map(abs, missed(true_N, true_N, terms).values())) < 1e-6


def test_the_fit_of_everything_is_the_floor(made):
    terms, true_N = made
    base_N = np.full_like(true_N, true_N.mean())
    floor = expected_losses(true_N, true_N).sum() / expected_losses(true_N, base_N).sum()
    assert told_ne(true_N, [terms["known"], terms["unknown"]]) == pytest.approx(floor, abs=1e-9)
