"""Impressions of a day: the logged ranking policy, or any other choice among the candidates. Ours.

The logged policy knows the truth only in part: its score is a noisy estimate of the click logit plus the bid,
and it explores (a softmax over the candidates), so every impression has a logged propensity.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gem_pipeline.datasets.worlds import draws
from gem_pipeline.datasets.worlds.content import Ads, ads, bid, candidates
from gem_pipeline.datasets.worlds.draws import Floats, Longs
from gem_pipeline.datasets.worlds.population import WEEK, Users
from gem_pipeline.datasets.worlds.response import (
    Outcome,
    Truth,
    click_logit,
    interest,
    outcomes,
    truth,
)
from gem_pipeline.datasets.worlds.traffic import Slots, after, arrival_ms, dwell_s, slots
from gem_pipeline.datasets.worlds.world import GOALS, Scale, World

POLICY = "logged-1"
POLICY_NOISE, POLICY_SKILL, POLICY_BID = 0.6, 0.7, 0.5  # how the logged policy guesses, and how much it minds the bid
CONVERSION_LATE_SHARE, CONVERSION_LATE_DAYS, CONVERSION_ARRIVAL_S = 0.05, (1.0, 3.0), 600.0


@dataclass(frozen=True, kw_only=True)
class Requests:
    """Ad requests of a day and the ads that compete for each.

    Attributes:
        slots: who asks, when, on which surface.
        ad_NK: candidates; the surface sells the goal of each that is `eligible_NK`.
        eligible_NK: a surface sells only some goals; where none fits, all may be shown.
        bid_NK: value of a click to the advertiser, currency units.
        advertiser_NK: advertisers of the candidates.
    """

    slots: Slots
    ad_NK: Longs
    eligible_NK: draws.Flags
    bid_NK: Floats
    advertiser_NK: Longs

    def take(self, rows: Longs) -> Requests:
        """Some of the requests, in the given order."""
        return Requests(
            slots=self.slots.take(rows), ad_NK=self.ad_NK[rows], eligible_NK=self.eligible_NK[rows],
            bid_NK=self.bid_NK[rows], advertiser_NK=self.advertiser_NK[rows],
        )  # fmt: skip


def requests(world: World, scale: Scale, who: Users, day: int) -> Requests:
    """All ad requests of a range of users on a day."""
    return requests_of(world, scale, slots(world, scale, who, day).ad_requests())


def requests_of(world: World, scale: Scale, asked: Slots) -> Requests:
    """Add the competing ads to ad slots."""
    at = asked.at
    ad_NK = candidates(world, scale, draws.key(scale.seed, 60, at.user_N, at.day, at.slot_N), at.day)
    flat = ads(world, scale, ad_NK.ravel())
    sells_SG = np.array([[goal in s.goals for goal in GOALS] for s in world.surfaces])
    eligible_NK = sells_SG[at.surface_N[:, None], flat.goal_N.reshape(ad_NK.shape)]
    eligible_NK = np.where(eligible_NK.any(axis=1, keepdims=True), eligible_NK, True)
    return Requests(
        slots=asked, ad_NK=ad_NK, eligible_NK=eligible_NK,
        bid_NK=bid(scale, ad_NK.ravel(), at.day // WEEK).reshape(ad_NK.shape),
        advertiser_NK=flat.advertiser_N.reshape(ad_NK.shape),
    )  # fmt: skip


def logged_shares(world: World, scale: Scale, asked: Requests) -> Floats:
    """Chance with which the logged policy shows each candidate, [N, 8]; 0 where it is not eligible."""
    at, shape = asked.slots.at, asked.ad_NK.shape
    every = at.take(np.repeat(np.arange(shape[0]), shape[1]))
    flat_ad = asked.ad_NK.ravel()
    noise_NK = draws.normal(draws.key(scale.seed, 61, every.user_N, at.day, flat_ad), "guess").reshape(shape)
    known_NK = click_logit(world, scale, every, ads(world, scale, flat_ad)).reshape(shape)
    score_NK = POLICY_SKILL * known_NK + POLICY_NOISE * noise_NK + POLICY_BID * np.log(asked.bid_NK)
    score_NK = np.where(asked.eligible_NK, score_NK, -np.inf)
    weight_NK = np.exp(score_NK - score_NK.max(axis=1, keepdims=True, initial=-np.inf))
    return np.asarray(weight_NK / weight_NK.sum(axis=1, keepdims=True))


def logged_policy(world: World, scale: Scale, asked: Requests) -> tuple[Longs, Floats]:
    """Choice of the logged policy among the candidates and its propensity, [N] each."""
    at, share_NK = asked.slots.at, logged_shares(world, scale, asked)
    keys = draws.key(scale.seed, 62, at.user_N[:, None], at.day, at.slot_N[:, None], asked.ad_NK)
    with np.errstate(divide="ignore"):
        chosen_N = (np.log(share_NK) + draws.gumbel(keys, "explore")).argmax(axis=1)
    return chosen_N, np.round(share_NK[np.arange(len(share_NK)), chosen_N], 5)


@dataclass(frozen=True, kw_only=True)
class Served:
    """Impressions with their truth and their outcomes, [N] each; times in milliseconds since the epoch."""

    slots: Slots
    ad_N: Longs
    ad: Ads
    bid_N: Floats
    price_N: Floats
    propensity_N: Floats
    truth: Truth
    interest_N: Floats
    outcome: Outcome
    dwell_s_N: Floats
    known_ms_N: Longs
    arrived_ms_N: Longs
    converted_ms_N: Longs
    conversion_arrived_ms_N: Longs


def serve(
    world: World, scale: Scale, asked: Requests, chosen_N: Longs, propensity_N: Floats, price_N: Floats | None = None
) -> Served:
    """Show the chosen candidates and let people react.

    Args:
        world: surfaces, conversions and weights.
        scale: population and seed.
        asked: requests and their candidates.
        chosen_N: index of the candidate that is shown.
        propensity_N: chance with which the policy chose it.
        price_N: what the advertiser pays for a click; the bid where none is given (first price).
    """
    at, rows = asked.slots.at, np.arange(len(chosen_N))
    ad_N, bid_N = asked.ad_NK[rows, chosen_N], asked.bid_NK[rows, chosen_N]
    known = truth(world, scale, at, ad_N)
    happened = outcomes(world, scale, at, ad_N, known)
    keys = draws.key(scale.seed, 63, at.user_N, at.day, at.slot_N, ad_N)
    ad = ads(world, scale, ad_N)
    interest_N = interest(world, at, ad.topic_N)
    dwell_N = dwell_s(world, keys, asked.slots, interest_N + 2.0 * happened.click_N)
    known_ms_N = after(asked.slots.time_ms_N, dwell_N)
    converted_ms_N = after(asked.slots.time_ms_N, np.nan_to_num(happened.delay_s_N))
    return Served(
        slots=asked.slots, ad_N=ad_N, ad=ad, bid_N=bid_N, price_N=bid_N if price_N is None else price_N,
        propensity_N=propensity_N, truth=known, interest_N=interest_N, outcome=happened, dwell_s_N=dwell_N,
        known_ms_N=known_ms_N, arrived_ms_N=arrival_ms(keys, known_ms_N), converted_ms_N=converted_ms_N,
        conversion_arrived_ms_N=converted_ms_N + _conversion_lag_ms(keys),
    )  # fmt: skip


def _conversion_lag_ms(keys: draws.Bits) -> Longs:
    """Conversions arrive ten minutes later on average, 5 % of them one to three days later."""
    late_N = draws.uniform(keys, "late conversion") < CONVERSION_LATE_SHARE
    low, high = CONVERSION_LATE_DAYS
    days_N = low + (high - low) * draws.uniform(keys, "conversion days")
    soon_N = CONVERSION_ARRIVAL_S * draws.exponential(keys, "conversion arrival")
    return (1000 * np.where(late_N, 86_400 * days_N, soon_N)).astype(np.int64)


def logged_day(world: World, scale: Scale, who: Users, day: int) -> Served:
    """The impressions that the logged policy made for a range of users on a day."""
    asked = requests(world, scale, who, day)
    chosen_N, propensity_N = logged_policy(world, scale, asked)
    return serve(world, scale, asked, chosen_N, propensity_N)
