"""Impossible parameters of a world are refused with the rule that they break."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gem_pipeline.datasets.worlds.world import ConversionType, Scale, Surface
from gem_pipeline.errors import ConfigError

SURFACE = Surface(name="feed", share=1.0, ad_every=4, click_bias=-3.0)
CONVERSION = ConversionType(name="lead", bias=-2.0, window_days=3, fast_share=0.5)


@pytest.mark.parametrize(
    ("change", "rule"),
    [({"share": 0.0}, "share of feed"), ({"ad_every": 1}, "ad_every"), ({"ad_every": 13}, "ad_every"),
     ({"dwell_s": 0.0}, "dwell_s"), ({"goals": ()}, "sells no goal")],
)  # fmt: skip
def test_impossible_surface_is_refused(change, rule):
    with pytest.raises(ConfigError, match=rule):
        replace(SURFACE, **change)


@pytest.mark.parametrize(
    ("change", "rule"),
    [({"name": "dance"}, "none of the goals"), ({"window_days": 0}, "window_days"), ({"fast_share": 1.1}, "fast_share"),
     ({"view_rate": 1.0}, "view_rate"), ({"value": 0.0}, "above 0")],
)  # fmt: skip
def test_impossible_conversion_is_refused(change, rule):
    with pytest.raises(ConfigError, match=rule):
        replace(CONVERSION, **change)


@pytest.mark.parametrize(
    ("change", "rule"),
    [({"surfaces": ()}, "surfaces must differ"), ({"surfaces": (SURFACE, SURFACE)}, "surfaces must differ"),
     ({"surfaces": (replace(SURFACE, share=0.5),)}, "sum to 0.5"), ({"topics": 1}, "topics"),
     ({"hidden_std": 0.0}, "must stay hidden"), ({"episode_events": 21}, "at most 20 events"),
     ({"short_focus": 0.8}, "short_focus"), ({"vector_signal": 2.0}, "vector_signal"),
     ({"join_share": 1.0}, "join_share"),
     ({"drift_weight": 1.0}, "drift needs"), ({"ad_days": 0}, "ad_days"), ({"heavy_events": 60_000}, "heavy_events"),
     ({"surfaces": (replace(SURFACE, goals=("traffic",)),)}, "no surface sells")],
)  # fmt: skip
def test_impossible_world_is_refused(everyday, change, rule):
    with pytest.raises(ConfigError, match=rule):
        replace(everyday, **change)


@pytest.mark.parametrize(
    ("change", "rule"),
    [({"users": 19}, "19 users"), ({"days": 0}, "days"), ({"history_days": -1}, "history_days"),
     ({"events_a_day": 0.5}, "events_a_day")],
)  # fmt: skip
def test_impossible_scale_is_refused(change, rule):
    with pytest.raises(ConfigError, match=rule):
        Scale(**({"users": 100} | change))


def test_kinds_are_organic_ad_and_conversion_kinds_once_each(everyday):
    assert len(set(everyday.kinds())) == len(everyday.kinds())
    assert {"view", "click", "purchase"} <= set(everyday.kinds())
    assert everyday.surface_names() == ("feed", "photos", "messaging")
