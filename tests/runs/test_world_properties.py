"""Every world has the property that it documents, by its truth alone."""

from __future__ import annotations

import numpy as np
import pytest

from gem_pipeline.datasets.worlds.catalog import WORLDS
from gem_pipeline.datasets.worlds.world import LAST_EVENTS, Scale
from gem_pipeline.runs import world_properties as subject

LONG = Scale(users=60, events_a_day=200, history_days=20)
WIDE = Scale(users=1000)


def served(name, days):
    return subject.days_served(WORLDS[name], WIDE, days)


def test_long_range_needs_thousands_of_events():
    few, hundred, many = subject.interest_from_last(WORLDS["long_range"], LONG, [20, 100, 2000], days=range(-20, 0))
    assert few < 0.25
    assert hundred < 0.6
    assert many > 0.7


def test_recent_only_has_nothing_before_the_last_twenty_events():
    found = subject.recent_only(WORLDS["recent_only"], Scale(users=300, events_a_day=200), 2)
    assert 10 < found.longest_episode <= LAST_EVENTS
    assert found.explained > 0.6
    assert abs(found.explained_with_older - found.explained) < 1e-5
    before = subject.interest_from_last(WORLDS["recent_only"], LONG, [20, 2000], days=range(-20, 0))
    assert max(map(abs, before)) < 0.005  # a new day begins a new episode


def test_harmful_transfer_makes_the_feeds_lessons_wrong_on_messaging():
    world = WORLDS["harmful_transfer"]
    found = subject.transfer(world, served("harmful_transfer", range(4)), "messaging")
    assert found.correlation < -0.5
    assert found.own < 0.97
    assert found.pooled > 1.05
    harmless = subject.transfer(WORLDS["everyday"], served("everyday", range(4)), "messaging")
    assert harmless.correlation > 0.8
    assert harmless.pooled < harmless.own + 0.01


@pytest.mark.parametrize("day", [0, 3, 7])
def test_drift_makes_last_weeks_topics_worse_than_none(day):
    frozen, correlation = subject.frozen_topic_ne(WORLDS["drift"], WIDE, day, day + 6)
    assert correlation < -0.8
    assert frozen > 1.05
    fresh, same = subject.frozen_topic_ne(WORLDS["drift"], WIDE, day, day + 12 if day == 0 else day + 1)
    assert same > 0.7
    assert fresh < 0.99


def test_topics_do_not_turn_in_the_everyday_world():
    frozen, correlation = subject.frozen_topic_ne(WORLDS["everyday"], WIDE, 0, 6)
    assert correlation > 0.9
    assert frozen < 1.02


def test_cold_start_is_about_new_users_and_new_ads_that_their_vectors_tell_of():
    world = WORLDS["cold_start"]
    new_users, new_ads = subject.cold_shares(world, WIDE, served("cold_start", range(14)))
    assert new_users > 0.5
    assert new_ads > 0.4
    assert subject.quality_from_vectors(world, Scale(users=200_000)) > 0.75
    usual_users, usual_ads = subject.cold_shares(WORLDS["everyday"], WIDE, served("everyday", range(14)))
    assert usual_users < 0.15
    assert usual_ads < 0.1


def test_sparse_conversions_are_rare_and_journeys_decide():
    rate, told = subject.conversions_explained(served("sparse_conversions", range(0, 14, 2)))
    assert 1e-5 < rate < 1e-3
    assert told > 0.6
    usual_rate, usual_told = subject.conversions_explained(served("everyday", range(0, 14, 2)))
    assert usual_rate > 5e-3
    assert usual_told < 0.4


@pytest.mark.parametrize("seed", range(4))
def test_entangled_has_a_taste_that_no_sum_over_pairs_of_columns_tells(seed):
    single, pairs, beyond = subject.taste_by_order(WORLDS["entangled"], Scale(users=20, seed=seed))
    assert single < 0.4
    assert pairs > 0.2
    assert beyond > 0.3
    assert single + pairs + beyond == pytest.approx(1.0)


def test_the_taste_is_most_of_the_entangled_logit():
    share = subject.logit_shares(WORLDS["entangled"], WIDE, served("entangled", [0, 5, 10]))
    assert share["taste"] > 0.4
    assert 0.05 < share["hidden"] < 0.2
    assert "taste" not in subject.logit_shares(WORLDS["everyday"], WIDE, served("everyday", [0]))


def test_orders_of_a_taste_are_those_of_a_sum_and_of_a_product(monkeypatch):
    one, other, third = np.meshgrid([-1.0, 1.0], [-1.0, 1.0], [-2.0, 2.0], indexing="ij")
    for table, expected in (
        (one + other, (1, 0, 0)),
        (one * other, (0, 1, 0)),
        (one * other * third + one + other, (2 / 6, 0, 4 / 6)),
    ):
        monkeypatch.setattr(subject, "taste_table", lambda _world, _scale, table=table: table)
        np.testing.assert_allclose(subject.taste_by_order(WORLDS["entangled"], WIDE), expected, atol=1e-12)


def test_everyday_has_a_little_of_everything():
    share = subject.logit_shares(WORLDS["everyday"], WIDE, served("everyday", [0, 5, 10]))
    assert sum(share.values()) == pytest.approx(1.0)
    assert 0.15 < share["long"] < 0.4
    assert 0.1 < share["quality"] < 0.3
    assert 0.05 < share["attributes"] < 0.2
    assert all(0.01 < share[name] < 0.05 for name in ("short", "journey", "position", "surface", "drift"))
    assert 0.001 < share["newcomer"] < 0.01
    assert 0.2 < share["hidden"] < 0.4


def test_explained_variance_is_one_of_itself_and_none_of_noise():
    draw = np.random.default_rng(0)
    target, noise = draw.standard_normal(1000), draw.standard_normal(1000)
    assert subject.r_squared(target, 2 * target + 1) == pytest.approx(1.0)
    assert subject.r_squared(target, noise) < 0.02


def test_true_ne_of_the_truth_is_below_one_and_of_the_base_rate_one():
    prob = np.random.default_rng(0).uniform(0.01, 0.3, 1000)
    assert subject.expected_ne(prob, prob) < 1
    assert subject.expected_ne(prob, np.full(1000, prob.mean())) == pytest.approx(1.0)
