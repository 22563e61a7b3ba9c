"""Users come out the same in any range; their days, lives, interests and journeys follow their closed forms."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest
from scipy import stats

from gem_pipeline.datasets.worlds import population
from gem_pipeline.datasets.worlds.catalog import WORLDS
from gem_pipeline.datasets.worlds.world import Scale
from gem_pipeline.errors import ConfigError
from tests.oracles.bounds import CHANCE, bernstein, distance, dkw


def test_users_come_out_the_same_in_any_range(everyday, scale, who):
    parts = [population.users(everyday, scale, first, first + 125) for first in range(0, 1000, 125)]
    for field in fields(who):
        whole = getattr(who, field.name)
        np.testing.assert_array_equal(whole, np.concatenate([getattr(part, field.name) for part in parts]))


def test_a_range_ends_with_the_population(everyday, scale):
    assert population.users(everyday, scale, 990, 5000).id_U.tolist() == list(range(991, 1001))


def test_days_and_their_indices_agree(scale):
    days = population.all_days(scale)
    assert len(days) == scale.history_days + scale.days
    assert [population.day_index(scale, day) for day in days] == list(range(-scale.history_days, scale.days))


def test_nobody_is_active_before_joining_or_after_leaving(who):
    for day in (-7, 0, 6, 13):
        gone = (day < who.joined_U) | (day >= who.left_U)
        assert not population.mean_events(who, day)[gone].any()
        assert (population.mean_events(who, day)[~gone] > 0).all()


def test_events_of_a_day_have_their_mean(everyday):
    scale = Scale(users=5000)
    who = population.users(everyday, scale, 0, scale.users)
    mean = population.mean_events(who, 3).sum()
    count = population.events_of_day(scale, who, 3).sum()
    assert stats.poisson.cdf(count, mean) > CHANCE
    assert stats.poisson.sf(count, mean) > CHANCE


def test_joiners_have_their_share_and_interests_are_normal(everyday, scale, who):
    share = np.full(1000, everyday.join_share)
    assert abs((who.joined_U >= 0).sum() - share.sum()) <= bernstein(share)
    assert distance(who.long_UT.ravel(), stats.norm.cdf) < dkw(who.long_UT.size)


def test_heavy_users_have_their_events(everyday):
    world, scale = replace(everyday, heavy_every=10, heavy_events=5000), Scale(users=100)
    who = population.users(world, scale, 0, 100)
    assert (who.rate_U == 5000).sum() == 10


@pytest.mark.parametrize("events", [10_000, 1_000_000])
def test_a_scale_has_the_wanted_number_of_events(everyday, events):
    world = replace(everyday, heavy_every=0)
    scale = population.scale_for(world, events, first_day="2026-01-01", history_days=3, days=7)
    who = population.users(world, scale, 0, scale.users)
    expected = sum(population.mean_events(who, day).sum() for day in range(-3, 7))
    assert expected == pytest.approx(events, rel=10 / np.sqrt(scale.users))


def test_too_few_or_too_many_events_are_refused(everyday):
    for events in (9_999, 10**11):
        with pytest.raises(ConfigError, match="are not in"):
            population.scale_for(everyday, events, first_day="2026-01-01", history_days=0, days=1)


def test_short_lived_interest_lasts_three_days_or_an_episode(everyday, scale):
    user = np.arange(1, 201)
    topics = np.stack([population.short_topic(everyday, scale, user, day, 0 * user) for day in range(60)])
    changes = (topics[1:] != topics[:-1]).sum(axis=0)
    assert changes.max() <= 20
    assert changes.mean() > 15  # an episode may draw the topic of the one before
    slot = np.arange(100)
    episodes = population.short_topic(WORLDS["recent_only"], scale, 0 * slot + 5, 3, slot)
    assert (np.diff(episodes).nonzero()[0] % 20 == 19).all()


def test_journeys_pass_their_stages_in_order_and_end(everyday, scale):
    user = np.arange(1, 301)
    at = [population.journey(everyday, scale, user, day) for day in range(56)]
    topic, stage = (np.stack([getattr(each, name) for each in at]) for name in ("topic_N", "stage_N"))
    on = topic != population.NO_TOPIC
    assert abs(on.mean() - 0.5 * 21 / 28) < 0.08
    going = on[1:] & on[:-1]
    assert (topic[1:][going] == topic[:-1][going]).all() or (stage[1:][going & (topic[1:] != topic[:-1])] == 0).all()
    assert np.isin((stage[1:] - stage[:-1])[going], (0, 1)).all()


def test_a_world_without_journeys_has_none(scale):
    at = population.journey(WORLDS["long_range"], scale, np.arange(1, 10), 3)
    assert (at.topic_N == population.NO_TOPIC).all()
