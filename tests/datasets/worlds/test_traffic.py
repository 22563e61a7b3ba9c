"""Slots are in order and do not overlap; positions, dwell and arrival times are as stated."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from gem_pipeline.datasets.worlds import draws, traffic
from gem_pipeline.datasets.worlds.catalog import WORLDS
from gem_pipeline.datasets.worlds.content import post_topic
from gem_pipeline.datasets.worlds.population import users
from gem_pipeline.datasets.worlds.world import SESSION, Scale
from tests.oracles.bounds import distance, dkw

DAY = 4


@pytest.fixture(scope="module")
def day_slots(everyday, scale, who):
    return traffic.slots(everyday, scale, who, DAY)


def test_slots_of_a_user_follow_one_another_within_the_day(everyday, scale, day_slots):
    heavy = replace(everyday, heavy_every=10, heavy_events=20_000)
    busy = traffic.slots(heavy, scale, users(heavy, scale, 0, 20), DAY)
    for made in (day_slots, busy):
        end = made.time_ms_N + (1000 * made.longest_s_N).astype(int) + 1
        same = made.at.row_N[1:] == made.at.row_N[:-1]
        assert (made.time_ms_N[1:] > end[:-1])[same].all()
        assert made.time_ms_N.min() >= traffic.midnight_ms(scale, DAY)
        assert end.max() <= traffic.midnight_ms(scale, DAY + 1)
        assert (made.at.slot_N[1:] == made.at.slot_N[:-1] + 1)[same].all()


def test_light_users_come_at_any_hour_and_mostly_in_the_evening(scale, day_slots):
    hour = (day_slots.time_ms_N - traffic.midnight_ms(scale, DAY)) / 3_600_000
    share = np.histogram(hour, bins=8, range=(0, 24))[0] / len(hour)
    assert share.min() > 0.03
    assert share[5:7].sum() > 1.5 * share[1:3].sum()


def test_positions_count_the_ads_before_in_the_session(everyday, day_slots):
    at = day_slots.at
    session = at.row_N * 10_000 + at.slot_N // SESSION
    ads_before = np.zeros(len(session), dtype=int)
    for rows in np.split(np.arange(len(session)), np.flatnonzero(np.diff(session)) + 1):
        ads_before[rows] = np.cumsum(day_slots.is_ad_N[rows]) - day_slots.is_ad_N[rows]
    assert (at.position_N == ads_before).all()
    every = np.array([s.ad_every for s in everyday.surfaces])[at.surface_N]
    assert (day_slots.is_ad_N == ((at.slot_N % SESSION) % every == every - 1)).all()


def test_a_session_stays_on_one_surface_and_surfaces_have_their_shares(everyday, day_slots):
    at = day_slots.at
    session = at.row_N * 10_000 + at.slot_N // SESSION
    same = session[1:] == session[:-1]
    assert (at.surface_N[1:] == at.surface_N[:-1])[same].all()
    share = np.bincount(at.surface_N) / len(at.surface_N)
    np.testing.assert_allclose(share, [s.share for s in everyday.surfaces], atol=0.08)


def test_ids_are_unique_and_say_user_day_and_slot(scale, day_slots):
    made = traffic.event_id(day_slots.at, scale)
    assert len(np.unique(made)) == len(made)
    user, day, slot = traffic.of_event_id(made, scale)
    assert (user == day_slots.at.user_N).all()
    assert (day == DAY).all()
    assert (slot == day_slots.at.slot_N).all()


def test_there_are_no_ads_in_the_history(everyday, scale, who):
    made = traffic.slots(everyday, scale, who, -3)
    assert len(made.ad_requests().time_ms_N) == 0
    assert len(traffic.organic(everyday, scale, made).post_N) == len(made.time_ms_N)


def test_a_day_without_users_is_empty(everyday, scale):
    nobody = users(everyday, scale, 0, 0)
    made = traffic.slots(everyday, scale, nobody, DAY)
    assert len(traffic.organic(everyday, scale, made).post_N) == 0


def test_arrivals_are_a_mixture_of_prompt_and_late():
    num = 20_000
    lag = (traffic.arrival_ms(draws.key(0, np.arange(num)), np.zeros(num, dtype=np.int64)) + 0.5) / 1000

    def distribution(seconds):
        prompt, late = (-np.expm1(-seconds / mean) for mean in (traffic.ARRIVAL_MEAN_S, traffic.LATE_MEAN_S))
        return (1 - traffic.LATE_SHARE) * prompt + traffic.LATE_SHARE * late

    assert distance(lag, distribution) < dkw(num)


def test_dwell_is_log_normal_around_the_median_of_the_surface(everyday, day_slots):
    keys, num = draws.key(5, np.arange(len(day_slots.time_ms_N))), len(day_slots.time_ms_N)
    endless = replace(day_slots, longest_s_N=np.full(num, 1e9))
    dwell = traffic.dwell_s(everyday, keys, endless, np.full(num, 1.0))
    median = np.array([s.dwell_s for s in everyday.surfaces])[day_slots.at.surface_N] * np.exp(0.3)
    standard = np.log(dwell / median) / 0.8
    rounding = 0.003  # of values to a hundredth of a second
    assert distance(standard, stats.norm.cdf) < dkw(num) + rounding


def test_dwell_is_cut_by_the_next_slot(everyday, day_slots):
    keys = draws.key(5, np.arange(len(day_slots.time_ms_N)))
    dwell = traffic.dwell_s(everyday, keys, day_slots, np.full(len(keys), 50.0))
    np.testing.assert_allclose(dwell, day_slots.longest_s_N, atol=0.005)


def test_organic_events_show_interests_and_are_known_after_they_happen(everyday, scale, day_slots):
    made = traffic.organic(everyday, scale, day_slots)
    kept = day_slots.take(np.flatnonzero(~day_slots.is_ad_N))
    assert (made.known_ms_N > kept.time_ms_N).all()
    assert (made.arrived_ms_N >= made.known_ms_N).all()
    assert made.did_NA[:, 0].all()
    topic = post_topic(everyday, made.post_N)
    liked = made.at.who.long_UT[made.at.row_N, topic]
    assert liked.mean() > 0.4
    assert (topic == made.at.short_N).mean() > everyday.short_focus
    assert np.corrcoef(made.scroll_N, liked)[0, 1] > 0.2


def test_messages_are_sent_only_where_people_converse(everyday, scale, day_slots):
    made = traffic.organic(everyday, scale, day_slots)
    messages = made.did_NA[:, 4]
    assert messages.any()
    assert {everyday.surfaces[s].name for s in np.unique(made.at.surface_N[messages])} == {"messaging"}


def test_journeys_show_their_stages_on_different_surfaces(scale):
    world = replace(WORLDS["everyday"], long_focus=0.0, short_focus=0.0)
    who = users(world, scale, 0, scale.users)
    share = np.zeros((3, 3))
    for stage in range(3):
        made = traffic.organic(world, scale, traffic.slots(world, scale, who, DAY))
        for surface in range(3):
            rows = (made.at.journey.topic_N >= 0) & (made.at.journey.stage_N == stage) & (made.at.surface_N == surface)
            share[stage, surface] = (post_topic(world, made.post_N) == made.at.journey.topic_N)[rows].mean()
    assert share.argmax(axis=1).tolist() == [1, 0, 2]


def test_a_day_is_the_same_in_any_range_of_users(everyday):
    scale = Scale(users=60)
    whole = traffic.slots(everyday, scale, users(everyday, scale, 0, 60), DAY)
    parts = [traffic.slots(everyday, scale, users(everyday, scale, k, k + 20), DAY) for k in (0, 20, 40)]
    np.testing.assert_array_equal(whole.time_ms_N, np.concatenate([part.time_ms_N for part in parts]))
