"""The logged policy: propensities are frequencies, eligibility holds, impressions are known after they happen."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from gem_pipeline.datasets.worlds import serve
from gem_pipeline.datasets.worlds.world import GOALS
from tests.oracles.bounds import bernstein

DAY = 5


@pytest.fixture(scope="module")
def asked(everyday, scale, who):
    return serve.requests(everyday, scale, who, DAY)


def test_each_candidate_is_shown_as_often_as_its_share_says(everyday, scale, asked):
    share = serve.logged_shares(everyday, scale, asked)
    chosen, _ = serve.logged_policy(everyday, scale, asked)
    np.testing.assert_allclose(share.sum(axis=1), 1.0)
    for candidate in range(share.shape[1]):
        gap = abs((chosen == candidate).sum() - share[:, candidate].sum())
        assert gap <= bernstein(share[:, candidate])


def test_each_level_of_propensity_is_a_frequency(everyday, scale, asked):
    share = serve.logged_shares(everyday, scale, asked)
    chosen, propensity = serve.logged_policy(everyday, scale, asked)
    picked = share[np.arange(len(chosen)), chosen]
    np.testing.assert_allclose(propensity, picked, atol=5.1e-6)
    edges = np.quantile(share[share > 0], np.arange(11) / 10)
    for low, high in pairwise(edges):
        inside = (share >= low) & (share < high)
        chance = np.minimum((share * inside).sum(axis=1), 1.0)  # that the choice falls into this level
        shown = (picked >= low) & (picked < high)
        assert abs(shown.sum() - chance.sum()) <= bernstein(chance)


def test_only_goals_that_the_surface_sells_are_shown_unless_none_fits(everyday, scale, asked):
    chosen, _ = serve.logged_policy(everyday, scale, asked)
    assert asked.eligible_NK[np.arange(len(chosen)), chosen].all()
    shown = serve.serve(everyday, scale, asked, chosen, np.ones(len(chosen)))
    sold = np.array([[goal in s.goals for goal in GOALS] for s in everyday.surfaces])
    fits = sold[asked.slots.at.surface_N, shown.ad.goal_N]
    assert (fits | asked.eligible_NK.all(axis=1)).all()
    assert fits.mean() > 0.98


def test_the_policy_prefers_likely_clicks_and_explores(everyday, scale, asked, served):
    _, propensity = serve.logged_policy(everyday, scale, asked)
    assert propensity.min() < 0.1
    random = serve.serve(everyday, scale, asked, asked.eligible_NK.argmax(axis=1), propensity)
    assert served[1].truth.p_click.mean() > 1.3 * random.truth.p_click.mean()


def test_first_price_is_the_bid_and_a_given_price_is_kept(everyday, scale, asked):
    chosen, propensity = serve.logged_policy(everyday, scale, asked)
    assert (serve.serve(everyday, scale, asked, chosen, propensity).price_N > 0).all()
    given = serve.serve(everyday, scale, asked, chosen, propensity, np.full(len(chosen), 0.25))
    assert (given.price_N == 0.25).all()


def test_what_happens_is_known_after_it_happened(served):
    for part in served:
        assert (part.known_ms_N > part.slots.time_ms_N).all()
        assert (part.arrived_ms_N >= part.known_ms_N).all()
        assert (part.conversion_arrived_ms_N >= part.converted_ms_N).all()
        late = (part.conversion_arrived_ms_N - part.converted_ms_N) > 86_400_000
        prob = np.full(len(late), serve.CONVERSION_LATE_SHARE)
        assert abs(late.sum() - prob.sum()) <= bernstein(prob)


def test_requests_can_be_taken_in_any_order(everyday, scale, asked):
    back = np.arange(len(asked.ad_NK))[::-1]
    chosen, propensity = serve.logged_policy(everyday, scale, asked)
    chosen_back, propensity_back = serve.logged_policy(everyday, scale, asked.take(back))
    assert (chosen_back == chosen[back]).all()
    assert (propensity_back == propensity[back]).all()
