"""Hashed draws: stateless, the same beside any other rows, and of the stated distributions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from gem_pipeline.datasets.worlds import draws
from tests.oracles.bounds import distance, dkw

NUM = 20_000
KEYS = draws.key(7, 1, np.arange(NUM))


@given(st.integers(0, 2**63 - 1), st.lists(st.integers(-(2**62), 2**62), min_size=1, max_size=20, unique=True))
def test_a_draw_does_not_depend_on_what_is_drawn_beside_it(seed, ids):
    together = draws.uniform(draws.key(seed, np.array(ids)), "x")
    alone = [draws.uniform(draws.key(seed, np.array([one])), "x")[0] for one in reversed(ids)]
    assert together.tolist() == alone[::-1]


def test_seed_order_of_keys_and_purpose_each_make_another_draw():
    first, second = np.array([1]), np.array([2])
    made = [
        draws.uniform(draws.key(0, first, second), "x"), draws.uniform(draws.key(1, first, second), "x"),
        draws.uniform(draws.key(0, second, first), "x"), draws.uniform(draws.key(0, first, second), "y"),
    ]  # fmt: skip
    assert len({value.item() for value in made}) == len(made)


@pytest.mark.parametrize(
    ("draw", "law"),
    [(draws.uniform, stats.uniform), (draws.normal, stats.norm), (draws.exponential, stats.expon),
     (draws.gumbel, stats.gumbel_r)],
)  # fmt: skip
def test_draws_have_their_distribution(draw, law):
    assert distance(draw(KEYS, "x"), law.cdf) < dkw(NUM)


def test_draws_for_two_purposes_are_unrelated():
    one, other = draws.normal(KEYS, "x"), draws.normal(KEYS, "y")
    assert abs(np.corrcoef(one, other)[0, 1]) < 6 / np.sqrt(NUM)


@pytest.mark.parametrize("mean", [0.05, 1.0, 30.0])
def test_poisson_counts_have_their_distribution(mean):
    made = draws.poisson(KEYS, "x", np.full(NUM, mean))
    share = np.array([(made <= count).mean() for count in range(60)])
    assert np.abs(share - stats.poisson.cdf(np.arange(60), mean)).max() < dkw(NUM)


def test_poisson_of_mean_zero_is_zero():
    assert not draws.poisson(KEYS, "x", np.zeros(NUM)).any()


def test_integers_and_choices_stay_in_range_and_have_their_shares():
    whole = draws.integers(KEYS, "x", 5)
    assert np.abs(np.bincount(whole, minlength=5) / NUM - 0.2).max() < 2 * dkw(NUM)
    cumulative = np.tile([0.1, 0.1, 1.0], (NUM, 1))
    shares = np.bincount(draws.choice(KEYS, "x", cumulative), minlength=3) / NUM
    assert shares[1] == 0
    assert abs(shares[0] - 0.1) < dkw(NUM)


def test_choice_survives_cumulative_shares_that_round_below_one():
    assert draws.choice(KEYS, "x", np.tile([0.0, 1e-300], (NUM, 1))).max() == 1
