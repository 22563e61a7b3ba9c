"""The worlds, by name. They are frozen: a change of any number here needs a new entry in the changelog."""

from __future__ import annotations

from dataclasses import replace

from gem_pipeline.datasets.worlds.world import LAST_EVENTS, ConversionType, Surface, World
from gem_pipeline.errors import ConfigError

_FEED = Surface(name="feed", share=0.55, ad_every=4, click_bias=-3.4, social=0.2,
                goals=("traffic", "purchase", "lead"))  # fmt: skip
_PHOTOS = Surface(name="photos", share=0.33, ad_every=5, click_bias=-3.8, position_decay=0.15, dwell_s=4.0, social=0.6,
                  goals=("traffic", "purchase"))  # fmt: skip
_MESSAGING = Surface(name="messaging", share=0.12, ad_every=8, click_bias=-3.5, position_decay=0.4, dwell_s=12.0,
                     social=-0.5, goals=("conversation", "lead"))  # fmt: skip
_PURCHASE = ConversionType(name="purchase", bias=-3.0, window_days=7, fast_share=0.5, value=25.0)
_LEAD = ConversionType(name="lead", bias=-2.0, window_days=3, fast_share=0.8, slow_days=1.0, value=8.0)
_CONVERSATION = ConversionType(name="conversation", bias=-1.0, window_days=1, fast_share=0.95, fast_s=120.0,
                               slow_days=0.3, view_rate=0.0, value=3.0)  # fmt: skip

_EVERYDAY = World(
    name="everyday",
    property="Long- and short-lived interests, journeys, quality and attributes all matter a little.",
    surfaces=(_FEED, _PHOTOS, _MESSAGING),
    conversions=(_PURCHASE, _LEAD, _CONVERSATION),
)

WORLDS = {
    world.name: world
    for world in (
        _EVERYDAY,
        replace(
            _EVERYDAY, name="long_range",
            property="Interests last for years and each event tells very little of them: long histories pay.",
            long_weight=1.2, short_weight=0.0, journey_weight=0.0, long_focus=0.6, short_focus=0.0, quality_std=0.3,
            churn_days=4000.0, join_share=0.02,
        ),
        replace(
            _EVERYDAY, name="recent_only",
            property=f"Given the row and the last {LAST_EVENTS} events of the user, older events add nothing.",
            long_weight=0.0, short_weight=2.0, episode_events=LAST_EVENTS, journey_weight=0.0, long_focus=0.0,
            short_focus=0.6,
        ),
        replace(
            _EVERYDAY, name="harmful_transfer",
            property="On messaging, what people like elsewhere repels them: what the feeds teach is wrong there.",
            surfaces=(_FEED, _PHOTOS, replace(_MESSAGING, interest_sign=-1.0)),
            long_weight=1.0, short_weight=1.0,
        ),
        replace(
            _EVERYDAY, name="drift",
            property="The appeal of topics turns within days: a model of last week is worse than none of the week.",
            drift_weight=1.4, drift_days=12.0, ad_days=7, long_weight=0.5,
        ),
        replace(
            _EVERYDAY, name="cold_start",
            property="Most users and ads are new; only attributes and vectors tell of them at first.",
            join_share=0.6, churn_days=10.0, ad_days=2, quality_std=1.0, vector_signal=0.9, attribute_weight=0.6,
        ),
        replace(
            _EVERYDAY, name="sparse_conversions",
            property="Fewer than one impression in a thousand converts, and journeys over weeks decide which.",
            journey_weight=2.0,
            conversions=(
                replace(_PURCHASE, bias=-7.0, fast_share=0.2, slow_days=3.0),
                replace(_LEAD, bias=-6.0), replace(_CONVERSATION, bias=-5.0),
            ),
        ),
        replace(
            _EVERYDAY, name="entangled",
            property="Who, what and where decide together: tables of two columns miss what a larger model finds.",
            surfaces=(
                replace(_FEED, click_bias=-2.7), replace(_PHOTOS, click_bias=-3.1),
                replace(_MESSAGING, click_bias=-2.8),
            ),
            attribute_weight=0.0, taste_weight=1.2, hidden_std=0.5,
        ),
    )
}  # fmt: skip


def world_named(name: str) -> World:
    """A world by name.

    Raises:
        ConfigError: there is none of that name.
    """
    if name not in WORLDS:
        raise ConfigError(f"There is no world {name!r}.", remedy=f"Choose one of {', '.join(sorted(WORLDS))}.")
    return WORLDS[name]
