"""What the log tells of an impression before it is shown: columns and summaries of what was known by then. Ours.

Each is a function of logged columns only; which functions are worth computing was chosen with the world's formulas
at hand. The floor given the logged columns is estimated from them (`gem_pipeline.runs.world_floors`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from scipy.special import expit, logit

from gem_pipeline.datasets.worlds.content import (
    ad_first_day,
    ad_in_slot,
    ads,
    num_slots,
    post_topic,
    vectors,
)
from gem_pipeline.datasets.worlds.draws import Floats, Longs
from gem_pipeline.datasets.worlds.population import Users, users
from gem_pipeline.datasets.worlds.response import click_terms
from gem_pipeline.datasets.worlds.serve import Served, logged_day
from gem_pipeline.datasets.worlds.tables import NEIGHBOURS, user_rows
from gem_pipeline.datasets.worlds.traffic import DAY_MS, organic, slots
from gem_pipeline.datasets.worlds.world import LAST_EVENTS, Scale, World

UNSEEN = ("long", "short", "journey", "quality")  # terms of the logit that no column states
WINDOWS_DAYS = (0, 14, 7, 2)  # 0: ever
_SPAN = 2**40  # milliseconds; more than any world lasts
_PRIOR_CLICKS = 2.0


@dataclass(frozen=True, kw_only=True)
class Past:
    """Values in groups over time; sums up to a moment. `key_E` is group and time of each, in order."""

    key_E: Longs
    total_E: Floats

    @classmethod
    def of(cls, group_E: Longs, time_ms_E: Longs, value_E: Floats) -> Past:
        """Sort values by group and the time from which they are known."""
        key_E = group_E * _SPAN + time_ms_E
        order = np.argsort(key_E, kind="stable")
        return cls(key_E=key_E[order], total_E=np.concatenate([[0.0], np.cumsum(value_E[order])]))

    def until(self, group_Q: Longs, time_ms_Q: Longs, *, days: int = 0) -> Floats:
        """Sum of what was known by a time, of the last days only where `days` is above 0, [Q]."""
        since_Q = np.maximum(time_ms_Q - days * DAY_MS, 0) if days else np.zeros_like(time_ms_Q)
        first_Q = np.searchsorted(self.key_E, group_Q * _SPAN + since_Q)
        last_Q = np.searchsorted(self.key_E, group_Q * _SPAN + time_ms_Q, side="right")
        return self.total_E[last_Q] - self.total_E[first_Q]


@dataclass(frozen=True, kw_only=True)
class _Events:
    """Organic events of all days, [E]: by user, from when known (milliseconds since the log's start), what, how."""

    row_E: Longs
    known_ms_E: Longs
    topic_E: Longs
    surface_E: Longs
    liking_E: Floats
    social_E: Floats
    episode_E: Longs


@dataclass(frozen=True, kw_only=True)
class Known:
    """Impressions with their truth, [N], and what was known of each, [N, F].

    Attributes:
        served: impressions by day.
        exposure_N: click probability by what columns state: the terms of the logit that need no estimate, and the
            quality that the ad's vectors show.
        column_NF: columns and summaries.
        names: of the columns.
    """

    served: tuple[Served, ...]
    exposure_N: Floats
    column_NF: Floats
    names: tuple[str, ...]

    def joined(self, name: str) -> Floats:
        """A field of the truth over all days, [N]."""
        return np.concatenate([getattr(part.truth, name) for part in self.served])

    def places(self) -> tuple[Longs, Longs]:
        """User row and surface of every impression, [N] each."""
        return _joined(self.served, "row_N"), _joined(self.served, "surface_N")


def known(world: World, scale: Scale, days: Sequence[int]) -> Known:
    """The logged policy's impressions of all users on some days, with what was known of them from the first day on."""
    who = users(world, scale, 0, scale.users)
    served = tuple(logged_day(world, scale, who, day) for day in days)
    zero_ms = int(min(part.slots.time_ms_N.min() for part in served)) - (scale.history_days + 1) * DAY_MS
    events = _events(world, scale, who, range(-scale.history_days, max(days) + 1), zero_ms)
    stated_N = np.concatenate([_stated(world, scale, part) for part in served])
    shown_N = _shown_quality(world, scale, served)
    columns = {"stated": stated_N, "shown_quality": shown_N}
    columns |= _row_columns(world, scale, who, served)
    columns |= _organic_columns(world, events, served, zero_ms)
    columns |= _ad_columns(world, served, expit(stated_N), zero_ms)
    return Known(
        served=served, exposure_N=expit(stated_N + shown_N), column_NF=np.stack(list(columns.values()), axis=1),
        names=tuple(columns),
    )  # fmt: skip


def _stated(world: World, scale: Scale, part: Served) -> Floats:
    terms = click_terms(world, scale, part.slots.at, part.ad)
    return np.sum([value for name, value in terms.items() if name not in UNSEEN], axis=0)


def _shown_quality(world: World, scale: Scale, served: Sequence[Served]) -> Floats:
    """The best linear estimate of quality from an ad's vectors, [N]."""
    ad_A, at_N = np.unique(np.concatenate([part.ad_N for part in served]), return_inverse=True)
    fit_A = np.unique(
        np.concatenate([ad_in_slot(world, scale, np.arange(num_slots(world, scale)), d) for d in range(0, 60, 5)])
    )

    def seen(ad_N: Longs) -> tuple[Floats, Floats]:
        ad = ads(world, scale, ad_N)
        made = vectors(world, scale, ad_N, ad.topic_N, ad.style_N)
        return np.concatenate([*made.values(), np.ones((len(ad_N), 1))], axis=1), ad.quality_N

    design, quality = seen(fit_A)
    return (seen(ad_A)[0] @ np.linalg.lstsq(design, quality, rcond=None)[0])[at_N]


def _events(world: World, scale: Scale, who: Users, days: Sequence[int], zero_ms: int) -> _Events:
    parts: dict[str, list[np.ndarray]] = {name: [] for name in _Events.__dataclass_fields__}
    sign_S = np.array([s.interest_sign for s in world.surfaces])
    for day in days:
        made = organic(world, scale, slots(world, scale, who, day))
        parts["row_E"].append(made.at.row_N)
        parts["known_ms_E"].append(np.maximum(made.known_ms_N + 1, made.arrived_ms_N) - zero_ms)
        parts["topic_E"].append(post_topic(world, made.post_N))
        parts["surface_E"].append(made.at.surface_N)
        # scroll depth is the plainest trace of liking
        parts["liking_E"].append(sign_S[made.at.surface_N] * logit(np.clip(made.scroll_N, 0.005, 0.995)))
        parts["social_E"].append(made.did_NA[:, 1:5].sum(axis=1).astype(np.float64))
        parts["episode_E"].append(_episode(made.at.day, made.at.slot_N))
    return _Events(**{name: np.concatenate(values) for name, values in parts.items()})


def _episode(day: int, slot_N: Longs) -> Longs:
    """Which twenty slots of which day, [N]: the number of a slot is the number of the user's earlier ones that day."""
    return (day + 1000) * 10_000 + slot_N // LAST_EVENTS


def _row_columns(world: World, scale: Scale, who: Users, served: Sequence[Served]) -> dict[str, Floats]:
    """Columns of the row, its user and its ad."""
    rows = user_rows(world, scale, 0, scale.users, max(part.slots.at.day for part in served))
    known_U, first = np.unique(rows["user_id"].to_numpy(), return_index=True)
    friends = rows["communities"].combine_chunks().take(pa.array(first))
    topic_UF = np.full((len(who.id_U), NEIGHBOURS), -1)  # who has no row yet has no impression either
    topic_UF[known_U - 1] = np.array(
        [int(name.removeprefix("community_")) for name in friends.flatten().to_pylist()]
    ).reshape(len(known_U), NEIGHBOURS)
    row_N, topic_N = _joined(served, "row_N"), np.concatenate([part.ad.topic_N for part in served])
    ad_N = np.concatenate([part.ad_N for part in served])
    day_N = np.concatenate([np.full(len(part.ad_N), part.slots.at.day) for part in served])
    return {
        "surface": _joined(served, "surface_N").astype(np.float64),
        "position": _joined(served, "position_N").astype(np.float64),
        "log_bid": np.log(np.concatenate([part.bid_N for part in served])),
        "friends": (topic_UF[row_N] == topic_N[:, None]).sum(axis=1).astype(np.float64),
        "ad_age": (day_N - ad_first_day(world, scale, ad_N)).astype(np.float64),
        "slot": np.minimum(_joined(served, "slot_N"), 1000).astype(np.float64),
    }


def _joined(served: Sequence[Served], name: str) -> Longs:
    return np.concatenate([getattr(part.slots.at, name) for part in served])


def _organic_columns(world: World, events: _Events, served: Sequence[Served], zero_ms: int) -> dict[str, Floats]:
    """What the user's organic events before the impression tell of the ad's topic, within windows and of the last."""
    row_N, topic_N = _joined(served, "row_N"), np.concatenate([part.ad.topic_N for part in served])
    time_N = np.concatenate([part.slots.time_ms_N for part in served]) - zero_ms
    one_E, pair_E, pair_N = np.ones(len(events.row_E)), events.row_E * 64 + events.topic_E, row_N * 64 + topic_N
    every = Past.of(events.row_E, events.known_ms_E, one_E)
    count = Past.of(pair_E, events.known_ms_E, one_E)
    liking = Past.of(pair_E, events.known_ms_E, events.liking_E)
    social = Past.of(pair_E, events.known_ms_E, events.social_E)
    columns = {"social": social.until(pair_N, time_N)}
    for days in WINDOWS_DAYS:
        seen_N, all_N = count.until(pair_N, time_N, days=days), every.until(row_N, time_N, days=days)
        columns[f"seen_{days}"] = seen_N
        columns[f"share_{days}"] = (seen_N + 1) / (all_N + world.topics)
        columns[f"liking_{days}"] = liking.until(pair_N, time_N, days=days) / (seen_N + 3)
    for surface, place in enumerate(world.surfaces):
        here = events.surface_E == surface
        columns[f"seen_on_{place.name}"] = Past.of(pair_E[here], events.known_ms_E[here], one_E[here]).until(
            pair_N, time_N, days=7
        )
    return columns | _last_columns(events, served, time_N, row_N=row_N, topic_N=topic_N)


def _last_columns(
    events: _Events, served: Sequence[Served], time_N: Longs, *, row_N: Longs, topic_N: Longs
) -> dict[str, Floats]:
    """The ad's topic among the user's last twenty known organic events, and among those of the present twenty slots."""
    key_E = events.row_E * _SPAN + events.known_ms_E
    order = np.argsort(key_E, kind="stable")
    last_N = np.searchsorted(key_E[order], row_N * _SPAN + time_N, side="right")
    back_NE = last_N[:, None] - 1 - np.arange(LAST_EVENTS)
    found_NE = order[np.maximum(back_NE, 0)]
    real_NE = (back_NE >= 0) & (events.row_E[found_NE] == row_N[:, None])
    same_NE = real_NE & (events.topic_E[found_NE] == topic_N[:, None])
    episode_N = np.concatenate([_episode(part.slots.at.day, part.slots.at.slot_N) for part in served])
    here_NE = real_NE & (events.episode_E[found_NE] == episode_N[:, None])
    return {
        "last_5": same_NE[:, :5].sum(axis=1).astype(np.float64),
        "last_20": same_NE.sum(axis=1).astype(np.float64),
        "liking_last": (same_NE * events.liking_E[found_NE]).sum(axis=1),
        "episode_same": (same_NE & here_NE).sum(axis=1).astype(np.float64),
        "episode_all": here_NE.sum(axis=1).astype(np.float64),
        "liking_episode": ((same_NE & here_NE) * events.liking_E[found_NE]).sum(axis=1),
    }


def _ad_columns(world: World, served: Sequence[Served], stated_N: Floats, zero_ms: int) -> dict[str, Floats]:
    """Earlier clicks on the ad, the advertiser, of the user and of the user on the topic, against what was stated."""
    time_N = np.concatenate([part.slots.time_ms_N for part in served]) - zero_ms
    seen_N = np.concatenate([np.maximum(part.known_ms_N + 1, part.arrived_ms_N) for part in served]) - zero_ms
    click_N = np.concatenate([part.outcome.click_N for part in served]).astype(np.float64)
    row_N, topic_N = _joined(served, "row_N"), np.concatenate([part.ad.topic_N for part in served])
    groups = {
        "ad": np.unique(np.concatenate([part.ad_N for part in served]), return_inverse=True)[1],
        "advertiser": np.concatenate([part.ad.advertiser_N for part in served]),
        "user": row_N, "user_topic": row_N * 64 + topic_N, "topic": topic_N,
    }  # fmt: skip
    columns = {}
    for name, group_N in groups.items():
        clicks_N = Past.of(group_N, seen_N, click_N).until(group_N, time_N)
        stated = Past.of(group_N, seen_N, stated_N).until(group_N, time_N)
        columns[f"lift_{name}"] = np.log((clicks_N + _PRIOR_CLICKS) / (stated + _PRIOR_CLICKS))
        columns[f"stated_{name}"] = stated
    return columns
