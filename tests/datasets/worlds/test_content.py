"""Ads replace one another in their slots; ids, starts, bids, budgets and vectors are closed forms."""

from __future__ import annotations

import numpy as np
import pytest

from gem_pipeline.datasets.worlds import content, draws
from gem_pipeline.datasets.worlds.catalog import WORLDS
from gem_pipeline.datasets.worlds.world import CANDIDATES, Scale


@pytest.fixture(params=["everyday", "cold_start"])
def world(request):
    return WORLDS[request.param]


def test_an_ad_runs_for_its_days_and_then_never_again(world, scale):
    slot = np.arange(content.num_slots(world, scale))
    days = np.stack([content.ad_in_slot(world, scale, slot, day) for day in range(30)])
    first = content.ad_first_day(world, scale, days)
    age = np.arange(30)[:, None] - first
    assert age.min() >= 0
    assert age.max() < world.ad_days
    assert (np.diff(days, axis=0) >= 0).all()
    assert len(np.unique(days[0])) == len(slot)


def test_ads_of_a_slot_share_topic_and_advertiser_and_an_advertiser_has_one_goal(world, scale):
    slot = np.arange(content.num_slots(world, scale))
    now, later = (
        content.ads(world, scale, content.ad_in_slot(world, scale, slot, day)) for day in (0, 2 * world.ad_days)
    )
    assert (now.topic_N == later.topic_N).all()
    assert (now.advertiser_N == later.advertiser_N).all()
    assert now.advertiser_N.max() == content.num_advertisers(world, scale)
    assert set(now.advertiser_N) == set(range(1, content.num_advertisers(world, scale) + 1))
    for advertiser in np.unique(now.advertiser_N):
        mine = now.advertiser_N == advertiser
        assert len(set(now.goal_N[mine]) | set(later.goal_N[mine])) == 1
        assert len(set(now.topic_N[mine])) == 1


def test_quality_has_its_spread_and_its_visible_share(world):
    scale = Scale(users=500_000)
    ad = content.ads(world, scale, content.ad_in_slot(world, scale, np.arange(content.num_slots(world, scale)), 0))
    assert ad.quality_N.std() == pytest.approx(world.quality_std, rel=0.1)
    assert np.corrcoef(ad.style_N, ad.quality_N)[0, 1] ** 2 == pytest.approx(world.vector_signal, abs=0.08)


def test_candidates_of_a_request_differ_and_run_on_the_day(world, scale):
    keys = draws.key(0, np.arange(500))
    ad = content.candidates(world, scale, keys, 4)
    assert ad.shape == (500, CANDIDATES)
    assert all(len(set(row)) == CANDIDATES for row in ad)
    running = content.ad_in_slot(world, scale, np.arange(content.num_slots(world, scale)), 4)
    assert np.isin(ad, running).all()


def test_bids_change_by_week_and_budgets_stay(world, scale):
    ad = content.ad_in_slot(world, scale, np.arange(50), 0)
    assert (content.bid(scale, ad, 0) > 0).all()
    assert (content.bid(scale, ad, 0) != content.bid(scale, ad, 1)).all()
    assert (content.daily_budget(world, scale, np.arange(1, 20)) > 0).all()


def test_budgets_grow_with_the_users(world):
    small, large = (Scale(users=number) for number in (1000, 100_000))
    total = [
        content.daily_budget(world, s, np.arange(1, content.num_advertisers(world, s) + 1)).sum()
        for s in (small, large)
    ]
    assert total[1] / total[0] == pytest.approx(100, rel=0.5)


def test_popular_posts_are_seen_more_often_and_keep_their_topic(world):
    topic = np.full(2000, 3)
    post = content.post_of(world, draws.key(0, np.arange(2000)), topic)
    assert (content.post_topic(world, post) == 3).all()
    assert np.isin(post, content.all_posts(world)).all()
    rank = (post - content.POSTS) // world.topics
    assert (rank < 50).mean() == pytest.approx(0.5, abs=0.06)


def test_vectors_show_topic_and_style_under_noise(world, scale):
    ad = np.arange(1, 301)
    topic, style = ad % world.topics, np.where(ad % 2, 2.0, -2.0)
    made = content.vectors(world, scale, ad, topic, style)
    assert {name: vector.shape[1] for name, vector in made.items()} == {"image": 16, "text": 16, "audio": 8}
    same = made["text"][topic == 1]
    assert same.std(axis=0).mean() == pytest.approx(0.4, abs=0.1)
    apart = made["audio"][style > 0].mean(axis=0) - made["audio"][style < 0].mean(axis=0)
    assert np.abs(apart).max() > 1.0
    alone = content.vectors(world, scale, ad[7:8], topic[7:8], style[7:8])
    np.testing.assert_array_equal(alone["image"], made["image"][7:8])
