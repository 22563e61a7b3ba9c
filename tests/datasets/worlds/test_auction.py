"""Auctions: prices, budgets and pacing keep their rules, whatever is bid."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gem_pipeline.datasets.worlds.auction import LOWEST, MICRO, UNFILLED, AuctionConfig, Bids, auction, paced
from gem_pipeline.errors import ConfigError
from tests.oracles import auction as oracle

CONFIG = AuctionConfig(slots=12)


def random_bids(seed, *, num=400, candidates=4, advertisers=5, slots=12):
    draw = np.random.default_rng(seed)
    shape = (num, candidates)
    return Bids(
        time_N=draw.integers(0, slots, num).astype(np.int16),
        advertiser_NK=draw.integers(0, advertisers, shape).astype(np.int32),
        bid_NK=np.where(draw.random(shape) < 0.2, 0.0, draw.lognormal(0, 0.7, shape)),
        prob_NK=np.where(draw.random(shape) < 0.05, 0.0, draw.random(shape) * 0.3),
        click_NK=draw.random(shape) < 0.3,
    )


def paid(bids, decided):
    """Advertiser, slot and price of every click."""
    rows = np.flatnonzero(decided.chosen_N != UNFILLED)
    rows = rows[bids.click_NK[rows, decided.chosen_N[rows]]]
    return bids.advertiser_NK[rows, decided.chosen_N[rows]], bids.time_N[rows], decided.price_N[rows]


@settings(max_examples=30)
@given(st.integers(0, 10**6), st.floats(0.2, 50.0))
def test_the_auction_agrees_with_one_request_at_a_time(seed, budget):
    bids, budgets = random_bids(seed, num=60), np.full(5, budget)
    decided = auction(bids, budgets, CONFIG)
    chosen, price = oracle.auction(
        bids.time_N.tolist(), bids.advertiser_NK.tolist(), bids.bid_NK.tolist(), bids.prob_NK.tolist(),
        bids.click_NK.tolist(), budgets.tolist(), slots=12, reserve=CONFIG.reserve, pace=CONFIG.pace,
    )  # fmt: skip
    assert decided.chosen_N.tolist() == chosen
    np.testing.assert_allclose(decided.price_N, price, atol=2e-6)


@settings(max_examples=30)
@given(st.integers(0, 10**6), st.floats(0.2, 50.0))
def test_prices_lie_between_the_reserve_and_the_own_bid(seed, budget):
    bids = random_bids(seed)
    decided = auction(bids, np.full(5, budget), CONFIG)
    rows = np.flatnonzero(decided.chosen_N != UNFILLED)
    own = bids.bid_NK[rows, decided.chosen_N[rows]]
    assert (decided.price_N[rows] >= CONFIG.reserve).all()
    assert (decided.price_N[rows] <= own).all()
    assert (bids.prob_NK[rows, decided.chosen_N[rows]] > 0).all()
    assert not decided.price_N[decided.chosen_N == UNFILLED].any()


@settings(max_examples=30)
@given(st.integers(0, 10**6), st.floats(0.2, 50.0))
def test_a_budget_is_overspent_by_less_than_the_slot_in_which_it_ends(seed, budget):
    bids = random_bids(seed)
    decided = auction(bids, np.full(5, budget), CONFIG)
    before_SA = np.cumsum(decided.spend_SA, axis=0) - decided.spend_SA
    spending = decided.spend_SA > 0
    assert (before_SA[spending] < budget).all()
    for advertiser, slot, price in zip(*paid(bids, decided), strict=True):
        assert price <= decided.spend_SA[slot, advertiser] + 1 / MICRO


@settings(max_examples=30)
@given(st.integers(0, 10**6), st.permutations(range(60)))
def test_the_order_of_requests_does_not_matter(seed, order):
    bids, budgets = random_bids(seed, num=60), np.full(5, 3.0)
    shuffled = Bids(**{name: getattr(bids, name)[list(order)] for name in Bids.__dataclass_fields__})
    one, other = auction(bids, budgets, CONFIG), auction(shuffled, budgets, CONFIG)
    np.testing.assert_array_equal(one.chosen_N[list(order)], other.chosen_N)
    np.testing.assert_array_equal(one.price_N[list(order)], other.price_N)
    np.testing.assert_array_equal(one.spend_SA, other.spend_SA)


def test_spend_is_the_sum_of_the_prices_of_clicks():
    bids = random_bids(1)
    decided = auction(bids, np.full(5, 10.0), CONFIG)
    advertiser, slot, price = paid(bids, decided)
    spend = np.zeros((12, 5))
    np.add.at(spend, (slot, advertiser), price)
    np.testing.assert_allclose(decided.spend_SA, spend)


def test_without_budgets_nobody_is_paced_and_rows_do_not_interfere():
    bids = random_bids(2)
    decided = auction(bids, np.full(5, np.inf), CONFIG)
    assert (decided.multiplier_SA == 1).all()
    half = Bids(**{name: getattr(bids, name)[::2] for name in Bids.__dataclass_fields__})
    np.testing.assert_array_equal(auction(half, np.full(5, np.inf), CONFIG).chosen_N, decided.chosen_N[::2])


def test_paced_budgets_last_longer_than_unpaced_ones():
    bids = random_bids(3, num=20_000, slots=96)
    budgets = np.full(5, 60.0)
    shares = []
    for pace in (0.0, 20.0):
        decided = auction(bids, budgets, AuctionConfig(pace=pace))
        shares.append(decided.spend_SA[72:].sum() / decided.spend_SA.sum())
    assert shares[0] == 0.0
    assert shares[1] == pytest.approx(0.25, abs=0.05)


def test_multipliers_fall_with_the_lead_and_recover_up_to_one():
    spent, now = np.array([0.5, 0.5, 0.2, 0.99, 0.5]), np.array([0.1, 0.3, 0.0, 0.0, 9.0])
    after = paced(np.full(5, -1.0), spent_A=spent, now_A=now, decided=0.5, asked=0.1, pace=20.0)
    np.testing.assert_allclose(after, [-1.0, -5.0, 0.0, -0.96, LOWEST])


def test_nobody_bids_below_the_reserve_or_without_a_chance():
    bids = random_bids(4)
    for change in ({"bid_NK": bids.bid_NK * 0 + 0.04}, {"prob_NK": bids.prob_NK * 0}):
        assert (auction(replace(bids, **change), np.full(5, 5.0), CONFIG).chosen_N == UNFILLED).all()


def test_a_single_bidder_pays_the_reserve():
    bids = random_bids(5, candidates=1)
    decided = auction(bids, np.full(5, np.inf), CONFIG)
    assert set(decided.price_N[decided.chosen_N != UNFILLED]) == {CONFIG.reserve}


def test_a_day_without_requests_has_no_spend():
    assert auction(random_bids(6, num=0), np.full(5, 5.0), CONFIG).spend_SA.sum() == 0


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"slots": 0}, "0 slots"),
        ({"reserve": 0.0}, "reserve"),
        ({"pace": -1.0}, "pace"),
        ({"budget_scale": 0.0}, "scale"),
    ],
)
def test_impossible_rules_are_refused(change, rule):
    with pytest.raises(ConfigError, match=rule):
        AuctionConfig(**change)
