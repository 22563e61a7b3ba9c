"""Posts and ads: topic, maker, format, vectors, quality; and which ads run on which day. Closed forms.

An ad slot hosts one ad after another, each for `ad_days` days, so the ads of a day are known without the
days before. An id says its slot: ad = slot + 1 + generation * slots; posts have ids from POSTS on.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gem_pipeline.datasets.worlds import draws
from gem_pipeline.datasets.worlds.draws import Floats, Longs
from gem_pipeline.datasets.worlds.world import CANDIDATES, FORMATS, GOALS, Scale, World

POSTS = 1_000_000_000  # ids of organic posts start here
POSTS_A_TOPIC = 200
ADS_AN_ADVERTISER = 6  # slots
IMAGE, TEXT, AUDIO = 16, 16, 8  # dimensions of the vectors
BUDGET_A_USER = 0.3  # currency units a day; clicks at their bids would cost about 0.4
GENERATIONS_BEFORE = 10_000  # keeps generations of days before the first one positive


def num_slots(world: World, scale: Scale) -> int:
    """Ad slots: ads that run at a time; a multiple of topics x candidates, growing with the root of the users."""
    unit = world.topics * CANDIDATES
    return unit * max(1, round((scale.users / 5000) ** 0.5))


def ad_in_slot(world: World, scale: Scale, slot_N: Longs, day: int) -> Longs:
    """The ad that a slot hosts on a day, [N]."""
    offset_N = draws.integers(draws.key(scale.seed, 20, slot_N), "slot offset", world.ad_days)
    generation_N = (day + offset_N) // world.ad_days + GENERATIONS_BEFORE
    return slot_N + 1 + generation_N * num_slots(world, scale)


def ad_first_day(world: World, scale: Scale, ad_N: Longs) -> Longs:
    """Day index on which an ad starts, [N]."""
    slots = num_slots(world, scale)
    slot_N, generation_N = (ad_N - 1) % slots, (ad_N - 1) // slots - GENERATIONS_BEFORE
    return generation_N * world.ad_days - draws.integers(
        draws.key(scale.seed, 20, slot_N), "slot offset", world.ad_days
    )


@dataclass(frozen=True, kw_only=True)
class Ads:
    """Attributes of ads, [N] each. `quality_N` is the truth and stands in no table."""

    topic_N: Longs
    advertiser_N: Longs
    goal_N: Longs
    format_N: Longs
    channel_N: Longs
    style_N: Floats
    quality_N: Floats


def ads(world: World, scale: Scale, ad_N: Longs) -> Ads:
    """Attributes of ads by id."""
    slot_N = (ad_N - 1) % num_slots(world, scale)
    keys, slot_keys = draws.key(scale.seed, 21, ad_N), draws.key(scale.seed, 22, slot_N // world.topics)
    style_N = draws.normal(keys, "style")
    rest_N = draws.normal(keys, "quality")
    shown = world.vector_signal
    return Ads(
        topic_N=slot_N % world.topics,
        advertiser_N=1 + advertiser_of(world, slot_N),
        # an advertiser has one goal, so that goals can be learnt from its older ads
        goal_N=draws.integers(draws.key(scale.seed, 23, advertiser_of(world, slot_N)), "goal", len(GOALS)),
        format_N=draws.integers(keys, "format", len(FORMATS)),
        channel_N=(draws.uniform(slot_keys, "channel") < 0.15).astype(np.int64),  # index into CHANNELS
        style_N=style_N,
        quality_N=world.quality_std * (np.sqrt(shown) * style_N + np.sqrt(1 - shown) * rest_N),
    )  # fmt: skip


def advertiser_of(world: World, slot_N: Longs) -> Longs:
    """Advertisers hold neighbouring slots of one topic, [N]."""
    return (slot_N // (world.topics * ADS_AN_ADVERTISER)) * world.topics + slot_N % world.topics


def num_advertisers(world: World, scale: Scale) -> int:
    """Advertisers of the world."""
    return int(advertiser_of(world, np.arange(num_slots(world, scale))).max()) + 1


def bid(scale: Scale, ad_N: Longs, week: npt.ArrayLike) -> Floats:
    """Value of a click to the advertiser in currency units, [N]; it changes from week to week."""
    base_N = draws.normal(draws.key(scale.seed, 24, ad_N), "bid")
    return np.exp(0.5 * base_N + 0.2 * draws.normal(draws.key(scale.seed, 25, ad_N, week), "bid"))


def daily_budget(world: World, scale: Scale, advertiser_N: Longs) -> Floats:
    """Budget of an advertiser in currency units a day, [N]: about half of them would spend more if they could."""
    fair_share = BUDGET_A_USER * scale.users / num_advertisers(world, scale)
    return fair_share * np.exp(0.8 * draws.normal(draws.key(scale.seed, 26, advertiser_N), "budget"))


def candidates(world: World, scale: Scale, request_keys: draws.Bits, day: int) -> Longs:
    """Ads that compete for each request, [N, 8]: one from each eighth of the slots, so all differ."""
    block = num_slots(world, scale) // CANDIDATES
    slot_NK = np.stack(
        [k * block + draws.integers(request_keys, f"candidate {k}", block) for k in range(CANDIDATES)], axis=1
    )
    return ad_in_slot(world, scale, slot_NK.ravel(), day).reshape(slot_NK.shape)


def post_of(world: World, keys: draws.Bits, topic_N: Longs) -> Longs:
    """An organic post of a topic, popular ones more often, [N]."""
    rank_N = (POSTS_A_TOPIC * draws.uniform(keys, "post") ** 2).astype(np.int64)
    return POSTS + topic_N + world.topics * rank_N


def post_topic(world: World, post_N: Longs) -> Longs:
    """Topic of organic posts, [N]."""
    return (post_N - POSTS) % world.topics


def all_posts(world: World) -> Longs:
    """Every post of the world, [P]; posts do not change."""
    return POSTS + np.arange(world.topics * POSTS_A_TOPIC, dtype=np.int64)


def vectors(world: World, scale: Scale, content_N: Longs, topic_N: Longs, style_N: Floats) -> dict[str, Floats]:
    """Image, text and audio vectors of content, [N, D] each.

    The image shows topic and style, the text the topic, the audio the style, all under noise.
    """
    made = {}
    for name, dim, shows in (("image", IMAGE, (0.7, 0.7)), ("text", TEXT, (1.0, 0.0)), ("audio", AUDIO, (0.0, 0.8))):
        of_topic_TD = draws.normal(draws.key(scale.seed, 27, np.arange(world.topics)[:, None], np.arange(dim)), name)
        of_style_D = draws.normal(draws.key(scale.seed, 28, np.arange(dim)), name)
        noise_ND = draws.normal(draws.key(scale.seed, 29, content_N[:, None], np.arange(dim)), name)
        vector_ND = shows[0] * of_topic_TD[topic_N] + shows[1] * style_N[:, None] * of_style_D + 0.4 * noise_ND
        made[name] = np.round(vector_ND, 4)
    return made
