"""The truth: calibrated against what happened within exact bounds, and delays as stated."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit, logit

from gem_pipeline.datasets.worlds import response
from gem_pipeline.datasets.worlds.catalog import WORLDS
from gem_pipeline.datasets.worlds.population import users
from gem_pipeline.datasets.worlds.serve import logged_day
from gem_pipeline.datasets.worlds.world import Scale
from tests.oracles.bounds import bernstein, calibrated, distance, dkw


def joined(served, get):
    return np.concatenate([get(part) for part in served])


@pytest.mark.parametrize("name", sorted(WORLDS))
def test_true_probabilities_are_calibrated_in_every_world(name):
    world, scale = WORLDS[name], Scale(users=1500)
    part = logged_day(world, scale, users(world, scale, 0, scale.users), 2)
    assert len(part.ad_N) > 1000
    assert calibrated(part.outcome.click_N, part.truth.p_click)
    assert calibrated(part.outcome.convert_N, part.truth.p_convert)


def test_true_probabilities_are_calibrated_on_each_surface_and_for_each_type(everyday, served):
    click, p_click = joined(served, lambda s: s.outcome.click_N), joined(served, lambda s: s.truth.p_click)
    convert, p_convert = joined(served, lambda s: s.outcome.convert_N), joined(served, lambda s: s.truth.p_convert)
    surface, kind = joined(served, lambda s: s.slots.at.surface_N), joined(served, lambda s: s.truth.type_N)
    for index in range(len(everyday.surfaces)):
        assert calibrated(click[surface == index], p_click[surface == index])
    for index in range(len(everyday.conversions)):
        assert calibrated(convert[kind == index], p_convert[kind == index])
    assert not convert[kind < 0].any()
    assert not p_convert[kind < 0].any()


def test_the_hidden_latent_integrated_out_is_calibrated_too(served):
    click, known = joined(served, lambda s: s.outcome.click_N), joined(served, lambda s: s.truth.p_click_logged)
    convert, known_convert = (
        joined(served, lambda s: s.outcome.convert_N), joined(served, lambda s: s.truth.p_convert_logged)
    )  # fmt: skip
    assert calibrated(click, known)
    assert calibrated(convert, known_convert)


def test_integration_agrees_with_many_draws_of_the_latent(everyday, scale, served):
    part = served[0]
    at, ad_N = part.slots.at.take(np.arange(30)), part.ad_N[:30]
    base = response.click_logit(everyday, scale, at, response.ads(everyday, scale, ad_N))
    latent = everyday.hidden_std * np.random.default_rng(0).standard_normal((200_000, 1))
    np.testing.assert_allclose(expit(base + latent).mean(axis=0), part.truth.p_click_logged[:30], rtol=0.01)


def test_conversions_follow_their_clicks(everyday, served):
    click, convert = joined(served, lambda s: s.outcome.click_N), joined(served, lambda s: s.outcome.convert_N)
    after, kind = joined(served, lambda s: s.truth.p_after_click), joined(served, lambda s: s.truth.type_N)
    view = np.array([*(c.view_rate for c in everyday.conversions), 0.0])[kind]
    for clicked, chance in ((click, after), (~click, after * view)):
        gap = abs(convert[clicked].sum() - chance[clicked].sum())
        assert gap <= bernstein(chance[clicked])


def test_terms_sum_to_the_logit_and_give_the_probability(everyday, scale, served):
    part = served[1]
    terms = response.click_terms(everyday, scale, part.slots.at, part.ad)
    total = response.click_logit(everyday, scale, part.slots.at, part.ad)
    np.testing.assert_allclose(sum(terms.values()), total)
    hidden = logit(part.truth.p_click) - total
    assert hidden.std() == pytest.approx(everyday.hidden_std, rel=0.05)
    assert abs(np.corrcoef(hidden, total)[0, 1]) < 0.1


def test_would_click_is_the_very_draw_of_the_outcome(everyday, scale, served):
    part = served[2]
    assert (response.would_click(everyday, scale, part.slots.at, part.ad_N) == part.outcome.click_N).all()


@pytest.fixture
def all_convert(everyday, scale, served):
    """Outcomes of impressions that all convert by one type, so that there are many delays."""
    part = served[0]

    def of_type(index):
        sure = np.ones(len(part.ad_N))
        known = replace(part.truth, p_click=sure, p_after_click=sure, type_N=np.full(len(sure), index))
        return response.outcomes(everyday, scale, part.slots.at, part.ad_N, known)

    return of_type


@pytest.mark.parametrize("index", range(3))
def test_delays_are_the_stated_mixture_cut_at_the_window(everyday, all_convert, index):
    kind, delay = everyday.conversions[index], all_convert(index).delay_s_N
    window = kind.window_days * 86_400.0

    def distribution(seconds):
        fast, slow = (
            np.expm1(-seconds / mean) / np.expm1(-window / mean) for mean in (kind.fast_s, kind.slow_days * 86_400.0)
        )
        return kind.fast_share * fast + (1 - kind.fast_share) * slow

    assert delay.min() >= 0
    assert delay.max() <= window
    assert distance(delay, distribution) < dkw(len(delay))


def test_values_are_positive_around_their_median(everyday, all_convert):
    value = all_convert(0).value_N
    assert value.min() > 0
    assert np.median(value) == pytest.approx(everyday.conversions[0].value, rel=0.1)


def test_only_what_converts_has_a_delay_and_a_value(served):
    for part in served:
        assert (np.isfinite(part.outcome.delay_s_N) == part.outcome.convert_N).all()
        assert (np.isfinite(part.outcome.value_N) == part.outcome.convert_N).all()


def test_appeal_drifts_with_its_period_only_where_there_is_drift(everyday, scale):
    drift = WORLDS["drift"]
    period = int(drift.drift_days)
    season = replace(drift, drift_weight=0.0, drift_days=0.0)
    only = [response.topic_drift(drift, scale, d) - response.topic_drift(season, scale, d) for d in (1, 1 + period)]
    np.testing.assert_allclose(*only, atol=1e-9)
    assert np.abs(response.topic_drift(everyday, scale, 40)).max() <= everyday.season_weight
