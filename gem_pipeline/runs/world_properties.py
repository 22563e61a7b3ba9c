"""What is true of each world, from the truth alone: no label is read. Tests and docs/worlds.md use them. Ours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from gem_pipeline.datasets.worlds.content import ad_in_slot, ads, num_slots, post_topic, vectors
from gem_pipeline.datasets.worlds.draws import Floats, Longs
from gem_pipeline.datasets.worlds.population import journey, short_topic, users
from gem_pipeline.datasets.worlds.response import ad_age_days, click_terms, taste_table, topic_drift
from gem_pipeline.datasets.worlds.serve import Served, logged_day
from gem_pipeline.datasets.worlds.traffic import organic, slots
from gem_pipeline.datasets.worlds.world import LAST_EVENTS, Scale, World
from gem_pipeline.metrics.ne import expected_log_loss_sums

BINS = 10


def days_served(world: World, scale: Scale, days: Sequence[int]) -> list[Served]:
    """The logged policy's impressions of all users on some days."""
    who = users(world, scale, 0, scale.users)
    return [logged_day(world, scale, who, day) for day in days]


def r_squared(target_N: Floats, *known_N: Floats) -> float:
    """Share of the target's variance that a linear function of what is known explains."""
    design_NF = np.stack([np.ones(len(target_N)), *known_N], axis=1)
    fitted_N = design_NF @ np.linalg.lstsq(design_NF, target_N, rcond=None)[0]
    return 1.0 - float(np.var(target_N - fitted_N) / np.var(target_N))


def expected_ne(prob_N: Floats, guess_N: Floats) -> float:
    """True NE of a guess: expected log loss over the entropy of the rows' expected base rate."""
    return float(expected_log_loss_sums(prob_N, guess_N).normalized_entropy())


@dataclass(frozen=True, kw_only=True)
class Organics:
    """Topics of organic events in order of user and time, [N]; `start_U` is where each user's events begin."""

    topic_N: Longs
    day_N: Longs
    slot_N: Longs
    start_U: Longs


def organics(world: World, scale: Scale, days: Sequence[int]) -> Organics:
    """What all users saw on some days."""
    who = users(world, scale, 0, scale.users)
    user, topic, at_day, at_slot = [], [], [], []
    for day in days:
        shown = organic(world, scale, slots(world, scale, who, day))
        user.append(shown.at.user_N)
        topic.append(post_topic(world, shown.post_N))
        at_day.append(np.full(len(shown.post_N), day))
        at_slot.append(shown.at.slot_N)
    user_N = np.concatenate(user)
    order = np.argsort(user_N, kind="stable")
    return Organics(
        topic_N=np.concatenate(topic)[order], day_N=np.concatenate(at_day)[order],
        slot_N=np.concatenate(at_slot)[order], start_U=np.searchsorted(user_N[order], np.arange(1, scale.users + 2)),
    )  # fmt: skip


def interest_from_last(world: World, scale: Scale, nums: Sequence[int], *, days: Sequence[int]) -> list[float]:
    """Share of the variance of interests that topics of the last events explain linearly, for each number of events.

    Over all users with the largest number of organic events and all topics, at the start of the day after `days`;
    interests are the long-lived, short-lived and journey terms of a click on the first surface.
    """
    seen, day = organics(world, scale, days), days[-1] + 1
    who = users(world, scale, 0, scale.users)
    enough = np.flatnonzero(np.diff(seen.start_U) >= max(nums))
    last_UN = seen.topic_N[seen.start_U[enough + 1][:, None] - 1 - np.arange(max(nums))]
    topics = np.arange(world.topics)
    at = journey(world, scale, who.id_U[enough], day)
    short_U = short_topic(world, scale, who.id_U[enough], day, np.zeros(len(enough), dtype=np.int64))
    term_UT = (
        world.long_weight * who.long_UT[enough]
        + world.short_weight * (short_U[:, None] == topics)
        + world.journey_weight * (at.topic_N[:, None] == topics) * (at.stage_N[:, None] > 0)
    )
    found = []
    for num in nums:
        cell_UN = last_UN[:, :num] + world.topics * np.arange(len(enough))[:, None]
        count = np.bincount(cell_UN.ravel(), minlength=term_UT.size)
        found.append(r_squared(term_UT.ravel(), count.astype(np.float64)))
    return found


@dataclass(frozen=True, kw_only=True)
class RecentOnly:
    """Longest episode in slots; variance of short-lived interests explained by the last events; by older ones too."""

    longest_episode: int
    explained: float
    explained_with_older: float


def recent_only(world: World, scale: Scale, day: int) -> RecentOnly:
    """Do events before the last 20 tell of the short-lived interest what the last 20 and the row do not?

    Each topic of each organic event is a row; known are the topics of the last 20 events, of the present episode and
    before it apart (the number of the slot tells them apart), and of the 100 events before those.
    """
    seen = organics(world, scale, [day])
    user_N = np.repeat(np.arange(scale.users), np.diff(seen.start_U))
    _, size = np.unique(np.stack([user_N, seen.slot_N // world.episode_events]), axis=1, return_counts=True)
    place_N = np.arange(len(user_N)) - seen.start_U[user_N]
    rows = np.flatnonzero(place_N >= LAST_EVENTS + 100)
    back_NE = rows[:, None] - 1 - np.arange(LAST_EVENTS + 100)
    topic_NE = seen.topic_N[back_NE]
    here_NE = seen.slot_N[back_NE] // world.episode_events == (seen.slot_N[rows] // world.episode_events)[:, None]
    short_N = short_topic(world, scale, user_N[rows] + 1, day, seen.slot_N[rows])
    parts: list[tuple[Floats, ...]] = []
    for topic in range(world.topics):
        of_topic_NE = topic_NE == topic
        recent_NE, inside_NE = of_topic_NE[:, :LAST_EVENTS], here_NE[:, :LAST_EVENTS]
        inside_N = (recent_NE & inside_NE).sum(axis=1)
        share_N = inside_N / np.maximum(inside_NE.sum(axis=1), 1)
        before_N = (recent_NE & ~inside_NE).sum(axis=1)
        older_N = of_topic_NE[:, LAST_EVENTS:].sum(axis=1)
        parts.append((short_N == topic, inside_N, share_N, before_N, older_N))
    target, *known = (np.concatenate(part).astype(np.float64) for part in zip(*parts, strict=True))
    return RecentOnly(
        longest_episode=int(size.max()), explained=r_squared(target, *known[:-1]),
        explained_with_older=r_squared(target, *known),
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Transfer:
    """True NE on one surface of a guess from interests: what they do there, or what they do everywhere."""

    own: float
    pooled: float
    correlation: float


def transfer(world: World, served: Sequence[Served], surface: str) -> Transfer:
    """What knowing people's likings (unsigned interests, in tenths) is worth on a surface."""
    sign_S = np.array([s.interest_sign for s in world.surfaces])
    surface_N = np.concatenate([s.slots.at.surface_N for s in served])
    liking_N = np.concatenate([s.interest_N for s in served]) * sign_S[surface_N]
    prob_N = np.concatenate([s.truth.p_click for s in served])
    bin_N = np.searchsorted(np.quantile(liking_N, np.arange(1, BINS) / BINS), liking_N)
    rate_S = np.bincount(surface_N, prob_N) / np.bincount(surface_N)
    lift_B = np.bincount(bin_N, prob_N, BINS) / np.bincount(bin_N, rate_S[surface_N], BINS)
    here = world.surface_names().index(surface)
    rows = np.flatnonzero(surface_N == here)
    own_B = np.bincount(bin_N[rows], prob_N[rows], BINS) / np.maximum(np.bincount(bin_N[rows], minlength=BINS), 1)
    other = surface_N != here
    return Transfer(
        own=expected_ne(prob_N[rows], own_B[bin_N[rows]]),
        pooled=expected_ne(prob_N[rows], np.minimum(rate_S[here] * lift_B[bin_N[rows]], 0.99)),
        correlation=float(
            np.corrcoef(_by_bin(liking_N[rows], prob_N[rows]), _by_bin(liking_N[other], prob_N[other]))[0, 1]
        ),
    )


def _by_bin(liking_N: Floats, prob_N: Floats) -> Floats:
    """Mean probability in each tenth of likings."""
    order = np.argsort(liking_N, kind="stable")
    return np.array([part.mean() for part in np.array_split(prob_N[order], BINS)])


def frozen_topic_ne(world: World, scale: Scale, day: int, later: int) -> tuple[float, float]:
    """True NE on day `later` of each topic's appeal as it was on `day`, and the correlation of both days' appeals."""
    then, now = days_served(world, scale, [day, later])
    appeal_T = np.bincount(then.ad.topic_N, then.truth.p_click, world.topics)
    appeal_T = appeal_T / np.bincount(then.ad.topic_N, minlength=world.topics) / then.truth.p_click.mean()
    drift_DT = np.stack([topic_drift(world, scale, at) for at in (day, later)])
    guess_N = np.minimum(now.truth.p_click.mean() * appeal_T[now.ad.topic_N], 0.99)
    return expected_ne(now.truth.p_click, guess_N), float(np.corrcoef(drift_DT)[0, 1])


def cold_shares(world: World, scale: Scale, served: Sequence[Served]) -> tuple[float, float]:
    """Shares of impressions by users there for less than a week, and of ads of less than a day."""
    tenure_N = np.concatenate([s.slots.at.day - s.slots.at.who.joined_U[s.slots.at.row_N] for s in served])
    age_N = np.concatenate([ad_age_days(world, scale, s.slots.at.day, s.ad_N) for s in served])
    return float((tenure_N < 7).mean()), float((age_N < 1).mean())


def quality_from_vectors(world: World, scale: Scale) -> float:
    """Share of the variance of ads' quality that a linear function of their vectors explains."""
    ad_N = ad_in_slot(world, scale, np.arange(num_slots(world, scale)), 0)
    ad = ads(world, scale, ad_N)
    made = vectors(world, scale, ad_N, ad.topic_N, ad.style_N)
    return r_squared(ad.quality_N, *np.concatenate(list(made.values()), axis=1).T)


def conversions_explained(served: Sequence[Served]) -> tuple[float, float]:
    """Mean true probability of a conversion, and which share of what is to know of conversions journeys tell.

    The latter is (1 - NE given the stage on the ad's topic) / (1 - NE given everything), all types together.
    """
    prob_N = np.concatenate([s.truth.p_convert for s in served])
    stage_N = np.concatenate(
        [np.where(s.slots.at.journey.topic_N == s.ad.topic_N, s.slots.at.journey.stage_N + 1, 0) for s in served]
    )
    type_N = np.concatenate([s.truth.type_N for s in served])
    asks = type_N >= 0
    rate_N = prob_N[asks]
    guess = {}
    for name, group_N in (("type", type_N[asks]), ("stage", 4 * type_N[asks] + stage_N[asks])):
        guess[name] = (np.bincount(group_N, rate_N) / np.maximum(np.bincount(group_N), 1))[group_N]
    base = expected_ne(rate_N, guess["type"])
    told = base - expected_ne(rate_N, guess["stage"])
    return float(prob_N.mean()), told / (base - expected_ne(rate_N, rate_N))


def taste_by_order(world: World, scale: Scale) -> tuple[float, float, float]:
    """Shares of the taste's variance that single columns tell, that pairs of them add, and that is beyond pairs.

    Every kind of user and ad counts alike. Source: Sobol's decomposition, 1993: the variance of the means over all
    other columns, less what parts of them tell.
    """
    taste = taste_table(world, scale)
    alone = {column: _told(taste, (column,)) for column in range(taste.ndim)}
    pairs = [
        _told(taste, (one, other)) - alone[one] - alone[other] for one, other in combinations(range(taste.ndim), 2)
    ]
    single, added = sum(alone.values()), sum(pairs)
    return single, added, 1.0 - single - added


def _told(taste: Floats, columns: tuple[int, ...]) -> float:
    """Share of the variance that a table of these columns tells."""
    others = tuple(axis for axis in range(taste.ndim) if axis not in columns)
    return float(np.var(taste.mean(axis=others)) / np.var(taste))


def logit_shares(world: World, scale: Scale, served: Sequence[Served]) -> dict[str, float]:
    """Variance of each term of the click's logit over the sum of all terms' variances, the hidden latent included."""
    terms: dict[str, list[Floats]] = {}
    for part in served:
        for name, value_N in click_terms(world, scale, part.slots.at, part.ad).items():
            terms.setdefault(name, []).append(value_N)
    variance = {name: float(np.var(np.concatenate(values))) for name, values in terms.items()}
    variance["hidden"] = world.hidden_std**2
    return {name: value / sum(variance.values()) for name, value in variance.items()}
