"""The slots of a day: sessions on surfaces, each slot organic content or an ad, with its time. Ours.

A user's day is cut into sessions of at most twelve slots; sessions do not overlap, so slots are in time order.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import numpy as np
from scipy.special import expit

from gem_pipeline.datasets.worlds import draws
from gem_pipeline.datasets.worlds.content import post_of
from gem_pipeline.datasets.worlds.draws import Floats, Longs
from gem_pipeline.datasets.worlds.population import NO_TOPIC, Users, events_of_day, first_date
from gem_pipeline.datasets.worlds.response import Moment, interest, moment
from gem_pipeline.datasets.worlds.world import SESSION, Scale, World

DAY_MS = 86_400_000
SLOT_MS = 40_000  # time between slots, less where sessions are dense
JITTER, LOOK = 0.3, 0.65  # a slot begins within 0.3 of its gap and is looked at for at most 0.65 of it: no overlap
EVENING, QUIET = 0.6, 0.17  # amplitude of the daily rhythm, below 1; quiet around 6:00, busy around 18:00
JOURNEY_FOCUS = 0.3  # chance that an organic slot on the stage's surface shows the journey's topic
LATE_SHARE, LATE_MEAN_S, ARRIVAL_MEAN_S = 0.02, 7200.0, 20.0
SURVEY_SHARE = 0.005


@dataclass(frozen=True, kw_only=True)
class Slots:
    """Slots of some users' day: when and what.

    Attributes:
        at: who and where.
        time_ms_N: milliseconds since the epoch (UTC).
        is_ad_N: an ad request; organic otherwise.
        longest_s_N: a slot is looked at for no longer, since the next one follows; so events are in slot order.
    """

    at: Moment
    time_ms_N: Longs
    is_ad_N: draws.Flags
    longest_s_N: Floats

    def take(self, rows: Longs) -> Slots:
        """Some of the slots, in the given order."""
        return Slots(at=self.at.take(rows), time_ms_N=self.time_ms_N[rows], is_ad_N=self.is_ad_N[rows],
                     longest_s_N=self.longest_s_N[rows])  # fmt: skip

    def ad_requests(self) -> Slots:
        """Only the slots of ads; none in the history."""
        return self.take(np.flatnonzero(self.is_ad_N) if self.at.day >= 0 else np.zeros(0, dtype=np.int64))


def midnight_ms(scale: Scale, day: int) -> int:
    """Start of a day in milliseconds since the epoch."""
    start = datetime.combine(first_date(scale), datetime.min.time(), tzinfo=UTC)
    return int((start + timedelta(days=day + scale.history_days)).timestamp() * 1000)


def _rhythm(fraction: Floats) -> Floats:
    """Where a fraction of a day's sessions lies within the day: few in the morning, many in the evening."""
    wave = np.sin(2 * np.pi * (fraction - QUIET)) + np.sin(2 * np.pi * QUIET)
    return fraction + EVENING * wave / (2 * np.pi)


def slots(world: World, scale: Scale, who: Users, day: int) -> Slots:
    """Every slot of a day for a range of users, by user and time."""
    count_U = events_of_day(scale, who, day)
    row_N = np.repeat(np.arange(len(count_U)), count_U)
    count_N = count_U[row_N]
    slot_N = np.arange(len(row_N)) - np.repeat(np.cumsum(count_U) - count_U, count_U)
    sessions_N = -(-count_N // SESSION)
    session_N, place_N = slot_N // SESSION, slot_N % SESSION
    session_keys = draws.key(scale.seed, 50, who.id_U[row_N], day, session_N)
    surface_N = draws.choice(session_keys, "surface", who.surface_UC[row_N])
    # a session begins anywhere in its part of the day that leaves room for its slots, at least in the first half
    needed_N = sessions_N * ((SESSION + 1) * SLOT_MS / (DAY_MS * (1 - EVENING)))
    part_N = draws.uniform(session_keys, "begin") * np.maximum(1 - needed_N, 0.5)
    begin_N = DAY_MS * _rhythm((session_N + part_N) / sessions_N)
    room_N = DAY_MS * _rhythm((session_N + 1.0) / sessions_N) - begin_N
    gap_N = np.minimum(SLOT_MS, room_N / (SESSION + 1))
    jitter_N = draws.uniform(draws.key(scale.seed, 51, who.id_U[row_N], day, slot_N), "jitter")
    every_N = np.array([s.ad_every for s in world.surfaces])[surface_N]
    position_N = place_N // every_N
    return Slots(
        at=moment(world, scale, who, day, row_N=row_N, slot_N=slot_N, surface_N=surface_N, position_N=position_N),
        time_ms_N=midnight_ms(scale, day) + (begin_N + (place_N + JITTER * jitter_N) * gap_N).astype(np.int64),
        is_ad_N=(place_N % every_N) == every_N - 1, longest_s_N=LOOK * gap_N / 1000,
    )  # fmt: skip


def event_id(at: Moment, scale: Scale) -> Longs:
    """64-bit id of each slot: 29 bits user, 14 bits day, 20 bits slot."""
    return (at.user_N << 34) + (np.int64(at.day + scale.history_days) << 20) + at.slot_N


def of_event_id(event_N: Longs, scale: Scale) -> tuple[Longs, Longs, Longs]:
    """User, day index and slot of each event id, [N] each: the inverse of `event_id`."""
    return event_N >> 34, ((event_N >> 20) & (2**14 - 1)) - scale.history_days, event_N & (2**20 - 1)


def arrival_ms(keys: draws.Bits, known_ms_N: Longs) -> Longs:
    """When the platform received what became known at a time, [N]: 20 s on average, 2 % of them two hours later."""
    late_N = draws.uniform(keys, "late") < LATE_SHARE
    mean_N = np.where(late_N, LATE_MEAN_S, ARRIVAL_MEAN_S)
    return known_ms_N + (1000 * mean_N * draws.exponential(keys, "arrival")).astype(np.int64)


def dwell_s(world: World, keys: draws.Bits, shown: Slots, liking_N: Floats) -> Floats:
    """Seconds that slots were looked at, [N]: log-normal, longer for what is liked, cut by the next slot."""
    median_N = np.array([s.dwell_s for s in world.surfaces])[shown.at.surface_N]
    wanted_N = median_N * np.exp(0.3 * liking_N + 0.8 * draws.normal(keys, "dwell"))
    return np.asarray(np.round(np.clip(wanted_N, 0.1, shown.longest_s_N), 2), dtype=np.float64)


def after(time_ms_N: Longs, seconds_N: Floats) -> Longs:
    """Milliseconds since the epoch, at least one later, [N]."""
    return time_ms_N + np.maximum((1000 * seconds_N).astype(np.int64), 1)


@dataclass(frozen=True, kw_only=True)
class Organic:
    """Organic events, [N] each; `did_NA` says which of the organic kinds happened."""

    at: Moment
    post_N: Longs
    known_ms_N: Longs
    arrived_ms_N: Longs
    dwell_s_N: Floats
    scroll_N: Floats
    did_NA: draws.Flags


def organic_topic(world: World, at: Moment, keys: draws.Bits) -> Longs:
    """Topic of what an organic slot shows, [N]: journey, short-lived or long-lived interest."""
    topic_N = draws.choice(keys, "topic", at.who.topic_UC[at.row_N])
    draw_N = draws.uniform(keys, "why")
    topic_N = np.where(draw_N < world.short_focus, at.short_N, topic_N)
    # the stages of a journey show on different surfaces
    here_N = at.surface_N == (1 - at.journey.stage_N) % len(world.surfaces)
    on_journey_N = (at.journey.topic_N != NO_TOPIC) & here_N & (draw_N > 1 - JOURNEY_FOCUS)
    return np.where(on_journey_N, at.journey.topic_N, topic_N)


def organic(world: World, scale: Scale, day_slots: Slots) -> Organic:
    """What people do with organic content; in the history, before the first impressions, every slot is organic."""
    keep = ~day_slots.is_ad_N if day_slots.at.day >= 0 else np.ones_like(day_slots.is_ad_N)
    shown = day_slots.take(np.flatnonzero(keep))
    at = shown.at
    keys = draws.key(scale.seed, 52, at.user_N, at.day, at.slot_N)
    topic_N = organic_topic(world, at, keys)
    liking_N = interest(world, at, topic_N) + 0.5 * draws.normal(keys, "mood")
    social_N = np.array([s.social for s in world.surfaces])[at.surface_N]
    talks_N = np.array(["conversation" in s.goals for s in world.surfaces])[at.surface_N]
    asked_N = draws.uniform(keys, "survey") < SURVEY_SHARE
    content_N = draws.uniform(keys, "content") < expit(0.4 + liking_N)

    def does(kind: str, logit: float) -> draws.Flags:
        return draws.uniform(keys, kind) < expit(logit + liking_N + social_N)

    dwell_N = dwell_s(world, keys, shown, liking_N)
    known_ms_N = after(shown.time_ms_N, dwell_N)
    return Organic(
        at=at, post_N=post_of(world, keys, topic_N), known_ms_N=known_ms_N,
        arrived_ms_N=arrival_ms(keys, known_ms_N), dwell_s_N=dwell_N,
        scroll_N=np.round(expit(liking_N + draws.normal(keys, "scroll")), 3),
        did_NA=np.stack(
            [np.ones(len(dwell_N), dtype=bool), does("like", -3.0), does("share", -5.0), does("comment", -4.5),
             talks_N & does("message", -3.0), draws.uniform(keys, "hide") < expit(-5.0 - liking_N),
             asked_N & content_N, asked_N & ~content_N], axis=1,
        ),
    )  # fmt: skip
