"""Users: who they are, when they are there, what they like. Closed forms of (seed, user, day)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import date, timedelta

import numpy as np

from gem_pipeline.datasets.worlds import draws
from gem_pipeline.datasets.worlds.draws import Floats, Longs
from gem_pipeline.datasets.worlds.world import Scale, World
from gem_pipeline.errors import ConfigError

AGES, REGIONS, DEVICES = 6, 8, 3
WEEK, JOURNEY = 7, 28
ACTIVITY_SIGMA = 0.9  # log-normal spread of the users' activity
JOURNEY_SHARE = 0.5  # of a user's 28-day blocks hold a purchase journey
NO_TOPIC = -1
PILOT = 20_000  # users whose mean activity tells how many are needed


def first_date(scale: Scale) -> date:
    """First day of the world, history included."""
    return date.fromisoformat(scale.first_day)


def all_days(scale: Scale) -> tuple[str, ...]:
    """Every day of the world, oldest first."""
    first = first_date(scale)
    return tuple(str(first + timedelta(days=i)) for i in range(scale.history_days + scale.days))


def day_index(scale: Scale, day: str) -> int:
    """Days since the first day with impressions; negative in the history."""
    return (date.fromisoformat(day) - first_date(scale)).days - scale.history_days


@dataclass(frozen=True, kw_only=True)
class Users:
    """A range of users.

    Attributes:
        id_U: user ids, from 1.
        key_U: hash keys.
        age_U: age band; region_U, device_U likewise.
        joined_U: day index of joining (negative: before the first impressions).
        left_U: day index of leaving.
        rate_U: mean events a day while the user is there.
        long_UT: long-lived interest in each topic, standard normal.
        surface_UC: cumulative taste for the surfaces.
        topic_UC: cumulative chance of each topic of content, from long-lived interests.
    """

    id_U: Longs
    key_U: draws.Bits
    age_U: Longs
    region_U: Longs
    device_U: Longs
    joined_U: Floats
    left_U: Floats
    rate_U: Floats
    long_UT: Floats
    surface_UC: Floats
    topic_UC: Floats


def users(world: World, scale: Scale, first: int, stop: int) -> Users:
    """Users first + 1 ... stop of the world's population (ids start at 1)."""
    id_U = np.arange(first + 1, min(stop, scale.users) + 1, dtype=np.int64)
    key_U = draws.key(scale.seed, 1, id_U)
    joins_U = draws.uniform(key_U, "joins") < world.join_share
    inside_U = np.floor(draws.uniform(key_U, "join day") * scale.days)
    before_U = -scale.history_days - 1 - np.floor(200 * draws.exponential(key_U, "age of account"))
    joined_U = np.where(joins_U, inside_U, before_U)
    staying_U = draws.exponential(key_U, "stays") * world.churn_days
    # who was there before is known to have stayed until the log began
    left_U = np.maximum(joined_U, -scale.history_days) + 1 + np.floor(staying_U)
    spread_U = np.exp(ACTIVITY_SIGMA * draws.normal(key_U, "activity") - ACTIVITY_SIGMA**2 / 2)
    rate_U = scale.events_a_day * np.clip(spread_U, 0.02, 12.0)
    if world.heavy_every:
        rate_U = np.where(id_U % world.heavy_every == world.heavy_every // 2, world.heavy_events, rate_U)
    long_UT = draws.normal(draws.key(scale.seed, 2, id_U[:, None], np.arange(world.topics)), "interest")
    taste_US = np.log([s.share for s in world.surfaces]) + 0.5 * draws.normal(
        draws.key(scale.seed, 3, id_U[:, None], np.arange(len(world.surfaces))), "surface"
    )
    return Users(
        id_U=id_U, key_U=key_U, joined_U=joined_U, left_U=left_U, rate_U=rate_U, long_UT=long_UT,
        age_U=draws.integers(key_U, "age", AGES), region_U=draws.integers(key_U, "region", REGIONS),
        device_U=draws.integers(key_U, "device", DEVICES),
        surface_UC=_cumulative(taste_US), topic_UC=_cumulative(world.long_focus * long_UT),
    )  # fmt: skip


def _cumulative(logit_UC: Floats) -> Floats:
    weight_UC = np.exp(logit_UC - logit_UC.max(axis=1, keepdims=True))
    return np.cumsum(weight_UC, axis=1) / weight_UC.sum(axis=1, keepdims=True)


def mean_events(who: Users, day: int) -> Floats:
    """Expected slots (organic and ads) of each user on a day, [U]: activity, life cycle, week and year together."""
    there_U = (who.joined_U <= day) & (day < who.left_U)
    young_U = 1 + 0.5 * np.exp(-np.maximum(day - who.joined_U, 0) / 7)  # new users explore
    weekend = 1.15 if (day % WEEK) in (5, 6) else 0.94
    year = 1 + 0.1 * np.cos(2 * np.pi * day / 365.25)
    return np.where(there_U, who.rate_U * young_U * weekend * year, 0.0)


def events_of_day(scale: Scale, who: Users, day: int) -> Longs:
    """Slots of each user on a day, [U]."""
    return draws.poisson(draws.key(scale.seed, 4, who.id_U, day), "volume", mean_events(who, day))


def scale_for(
    world: World,
    events: int,
    *,
    first_day: str,
    history_days: int,
    days: int,
    events_a_day: float = 20.0,
    seed: int = 0,
) -> Scale:
    """The scale whose days hold a wanted number of events, organic and ads, in expectation.

    The true number lies within a few percent, more where there are few users.

    Raises:
        ConfigError: fewer than 10 000 or more than 10^10 events, or a population of fewer than 20 users.
    """
    if not 10_000 <= events <= 10**10:
        raise ConfigError(
            f"Impossible world: {events} events are not in [10 000, 10^10].", remedy="Mend `world` in the contract."
        )
    pilot = Scale(users=PILOT, first_day=first_day, history_days=history_days, days=days, events_a_day=events_a_day)
    calm = replace(world, heavy_every=0)
    who = users(calm, pilot, 0, PILOT)
    span = range(-history_days, days)
    a_user = sum(float(mean_events(who, day).mean()) for day in span)
    if world.heavy_every:
        a_user += (world.heavy_events / events_a_day - 1) * a_user / world.heavy_every
    return replace(pilot, users=round(events / a_user), seed=seed)


def short_topic(world: World, scale: Scale, user_N: Longs, day: int, slot_N: Longs) -> Longs:
    """Topic of the short-lived interest at a slot of a user's day, [N]: drawn anew for each episode."""
    if world.episode_events:
        keys = draws.key(scale.seed, 5, user_N, day, slot_N // world.episode_events)
    else:
        offset_N = draws.integers(draws.key(scale.seed, 6, user_N), "offset", world.short_days)
        keys = draws.key(scale.seed, 5, user_N, (day + offset_N) // world.short_days, -1)
    return draws.integers(keys, "short topic", world.topics)


@dataclass(frozen=True, kw_only=True)
class Journey:
    """Where each row's user stands in a purchase journey: topic (-1: none), stage 0 aware, 1 considering, 2 ready."""

    topic_N: Longs
    stage_N: Longs


def journey(world: World, scale: Scale, user_N: Longs, day: int) -> Journey:
    """Purchase journeys: blocks of 28 days; days 0-6 aware, 7-13 considering, 14-20 ready, then over."""
    if world.journey_weight == 0:
        return Journey(topic_N=np.full(len(user_N), NO_TOPIC), stage_N=np.zeros(len(user_N), dtype=np.int64))
    at_N = day + draws.integers(draws.key(scale.seed, 7, user_N), "offset", JOURNEY)
    keys = draws.key(scale.seed, 8, user_N, at_N // JOURNEY)
    stage_N = (at_N % JOURNEY) // WEEK
    on_N = (draws.uniform(keys, "journey") < JOURNEY_SHARE) & (stage_N < 3)
    topic_N = np.where(on_N, draws.integers(keys, "journey topic", world.topics), NO_TOPIC)
    return Journey(topic_N=topic_N, stage_N=np.minimum(stage_N, 2))
