"""The truth: how likely a click and a conversion are, and how people react to organic content. Ours.

The logit of a click adds surface, position, interests, journey, quality of the ad, attributes, drift, season
and a latent of the impression that no table holds; in one world a taste that entangles attributes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from gem_pipeline.datasets.worlds import draws
from gem_pipeline.datasets.worlds.content import Ads, ad_first_day, ads
from gem_pipeline.datasets.worlds.draws import Floats, Longs
from gem_pipeline.datasets.worlds.population import AGES, DEVICES, REGIONS, Journey, Users, journey, short_topic
from gem_pipeline.datasets.worlds.taste import entangled
from gem_pipeline.datasets.worlds.world import FORMATS, GOALS, Scale, World

CLICK_BY_STAGE = np.array([0.3, 0.8, 1.0])  # share of the journey's weight in the logit of a click
CONVERT_BY_STAGE = np.array([0.0, 0.6, 2.0])  # the same for a conversion
HIDDEN_IN_CONVERSION = 0.5  # the hidden latent moves conversions half as much
NEW_USER_LOGIT, NEW_USER_DAYS = 0.3, 7.0
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(21)


@dataclass(frozen=True, kw_only=True)
class Moment:
    """Rows of a day: who, where, when.

    Attributes:
        row_N: position of the user in `who`.
        slot_N: number of the slot in the user's day.
        surface_N: surface index.
        position_N: ads before it in the session.
        short_N: topic of the short-lived interest.
        journey: purchase journey.
    """

    who: Users
    day: int
    row_N: Longs
    slot_N: Longs
    surface_N: Longs
    position_N: Longs
    short_N: Longs
    journey: Journey

    @property
    def user_N(self) -> Longs:  # noqa: N802 (tensor names carry shapes)
        """User ids."""
        return self.who.id_U[self.row_N]

    def take(self, rows: Longs) -> Moment:
        """Some of the rows, in the given order."""
        return Moment(
            who=self.who, day=self.day, row_N=self.row_N[rows], slot_N=self.slot_N[rows],
            surface_N=self.surface_N[rows], position_N=self.position_N[rows], short_N=self.short_N[rows],
            journey=Journey(topic_N=self.journey.topic_N[rows], stage_N=self.journey.stage_N[rows]),
        )  # fmt: skip


def moment(
    world: World,
    scale: Scale,
    who: Users,
    day: int,
    *,
    row_N: Longs,
    slot_N: Longs,
    surface_N: Longs,
    position_N: Longs,
) -> Moment:
    """Add interests of the moment to rows of a day."""
    user_N = who.id_U[row_N]
    return Moment(
        who=who, day=day, row_N=row_N, slot_N=slot_N, surface_N=surface_N, position_N=position_N,
        short_N=short_topic(world, scale, user_N, day, slot_N), journey=journey(world, scale, user_N, day),
    )  # fmt: skip


def interest_terms(world: World, at: Moment, topic_N: Longs) -> dict[str, Floats]:
    """What the history can tell of the logit: long-lived, short-lived and journey terms on this surface, [N] each."""
    sign_N = np.array([s.interest_sign for s in world.surfaces])[at.surface_N]
    on_journey_N = (at.journey.topic_N == topic_N) * CLICK_BY_STAGE[at.journey.stage_N]
    return {
        "long": world.long_weight * sign_N * at.who.long_UT[at.row_N, topic_N],
        "short": world.short_weight * sign_N * (at.short_N == topic_N),
        "journey": world.journey_weight * sign_N * on_journey_N,
    }


def interest(world: World, at: Moment, topic_N: Longs) -> Floats:
    """Sum of `interest_terms`, [N]."""
    return _total(interest_terms(world, at, topic_N))


def _total(terms: dict[str, Floats]) -> Floats:
    return np.sum(list(terms.values()), axis=0)


def topic_drift(world: World, scale: Scale, day: int) -> Floats:
    """Logit of each topic on a day from drift and season, [T]."""
    keys = draws.key(scale.seed, 40, np.arange(world.topics))
    year_T = world.season_weight * np.cos(2 * np.pi * (day / 365.25 + draws.uniform(keys, "season")))
    if not world.drift_days:
        return year_T
    phase_T = draws.uniform(keys, "phase")
    return year_T + world.drift_weight * np.cos(2 * np.pi * (day / world.drift_days + phase_T))


def _attributes(world: World, scale: Scale, at: Moment, ad: Ads) -> Floats:
    def table(purpose: str, rows: int, columns: int) -> Floats:
        return draws.normal(draws.key(scale.seed, 41, np.arange(rows)[:, None], np.arange(columns)), purpose)

    who, row_N = at.who, at.row_N
    return world.attribute_weight * (
        table("age", AGES, len(GOALS))[who.age_U[row_N], ad.goal_N]
        + table("device", DEVICES, len(FORMATS))[who.device_U[row_N], ad.format_N]
        + table("region", REGIONS, world.topics)[who.region_U[row_N], ad.topic_N]
    )


def taste_table(world: World, scale: Scale) -> Floats:
    """The entangled taste in the logit by age, region, device, topic, format, goal and surface."""
    ad = (world.topics, len(FORMATS), len(GOALS), len(world.surfaces))
    return world.taste_weight * entangled(scale.seed, (AGES, REGIONS, DEVICES), ad)


def _taste(world: World, scale: Scale, at: Moment, ad: Ads) -> Floats:
    who, row_N = at.who, at.row_N
    user = (who.age_U[row_N], who.region_U[row_N], who.device_U[row_N])
    return taste_table(world, scale)[*user, ad.topic_N, ad.format_N, ad.goal_N, at.surface_N]


def click_terms(world: World, scale: Scale, at: Moment, ad: Ads) -> dict[str, Floats]:
    """The terms that sum to the logit of a click but for the hidden latent, by name, [N] each."""
    bias_N = np.array([s.click_bias for s in world.surfaces])[at.surface_N]
    decay_N = np.array([s.position_decay for s in world.surfaces])[at.surface_N]
    tenure_N = at.day - at.who.joined_U[at.row_N]
    terms = {
        "surface": bias_N,
        "position": -decay_N * np.log2(1 + at.position_N),
        **interest_terms(world, at, ad.topic_N),
        "quality": ad.quality_N,
        "attributes": _attributes(world, scale, at, ad),
        "drift": topic_drift(world, scale, at.day)[ad.topic_N],
        "newcomer": NEW_USER_LOGIT * np.exp(-np.maximum(tenure_N, 0) / NEW_USER_DAYS),
    }
    return terms | {"taste": _taste(world, scale, at, ad)} if world.taste_weight else terms


def click_logit(world: World, scale: Scale, at: Moment, ad: Ads) -> Floats:
    """Everything but the hidden latent, [N]."""
    return _total(click_terms(world, scale, at, ad))


@dataclass(frozen=True, kw_only=True)
class Truth:
    """True probabilities of impressions, [N] each.

    Attributes:
        p_click: given everything.
        p_click_logged: the hidden latent integrated out; nothing that is logged tells of it.
        p_convert: of the conversion that the ad's goal asks for, clicked or not; 0 where it asks for none.
        p_convert_logged: likewise, the hidden latent integrated out.
        p_after_click: chance of the conversion once it is clicked.
        type_N: index of the conversion type; -1: none.
    """

    p_click: Floats
    p_click_logged: Floats
    p_convert: Floats
    p_convert_logged: Floats
    p_after_click: Floats
    type_N: Longs


def conversion_type(world: World, goal_N: Longs) -> Longs:
    """Index into the world's conversions of what a goal asks for; -1: nothing beyond the click."""
    names = [c.name for c in world.conversions]
    return np.array([names.index(goal) if goal in names else -1 for goal in GOALS])[goal_N]


def _hidden(world: World, scale: Scale, at: Moment, ad_N: Longs) -> Floats:
    return world.hidden_std * draws.normal(draws.key(scale.seed, 42, at.user_N, at.day, at.slot_N, ad_N), "hidden")


def _outcome_keys(scale: Scale, at: Moment, ad_N: Longs) -> draws.Bits:
    return draws.key(scale.seed, 43, at.user_N, at.day, at.slot_N, ad_N)


def would_click(world: World, scale: Scale, at: Moment, ad_N: Longs) -> draws.Flags:
    """Whether the rows' users would click `ad_N` if it were shown, [N]: the very draw of `outcomes`."""
    p_click_N = expit(click_logit(world, scale, at, ads(world, scale, ad_N)) + _hidden(world, scale, at, ad_N))
    return draws.uniform(_outcome_keys(scale, at, ad_N), "click") < p_click_N


def truth(world: World, scale: Scale, at: Moment, ad_N: Longs) -> Truth:
    """True probabilities of showing `ad_N` at the rows of `at`."""
    ad = ads(world, scale, ad_N)
    logit_N = click_logit(world, scale, at, ad)
    hidden_N = _hidden(world, scale, at, ad_N)
    type_N = conversion_type(world, ad.goal_N)
    bias_N = np.array([*(c.bias for c in world.conversions), 0.0])[type_N]
    view_N = np.array([*(c.view_rate for c in world.conversions), 0.0])[type_N]
    stage_N = (at.journey.topic_N == ad.topic_N) * CONVERT_BY_STAGE[at.journey.stage_N]
    wish_N = bias_N + world.journey_weight * stage_N + 0.5 * world.long_weight * at.who.long_UT[at.row_N, ad.topic_N]

    def given(latent_N: Floats) -> tuple[Floats, Floats, Floats]:
        click_N = expit(logit_N + latent_N)
        after_N = np.where(type_N >= 0, expit(wish_N + HIDDEN_IN_CONVERSION * latent_N), 0.0)
        return click_N, click_N * after_N + (1 - click_N) * view_N * after_N, after_N

    p_click, p_convert, p_after = given(hidden_N)
    known = np.zeros((2, len(ad_N)))
    for node, weight in zip(_NODES, _WEIGHTS / _WEIGHTS.sum(), strict=True):
        at_node = given(np.full(len(ad_N), world.hidden_std * node))
        known += weight * np.stack(at_node[:2])
    return Truth(
        p_click=p_click, p_click_logged=known[0], p_convert=p_convert, p_convert_logged=known[1],
        p_after_click=p_after, type_N=type_N,
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What happened after impressions, [N] each; delays in seconds, NaN where nothing converts."""

    click_N: draws.Flags
    convert_N: draws.Flags
    delay_s_N: Floats
    value_N: Floats


def outcomes(world: World, scale: Scale, at: Moment, ad_N: Longs, known: Truth) -> Outcome:
    """Draw clicks, conversions, delays and values of impressions from their true probabilities."""
    keys = _outcome_keys(scale, at, ad_N)
    click_N = draws.uniform(keys, "click") < known.p_click
    view_N = np.array([*(c.view_rate for c in world.conversions), 0.0])[known.type_N]
    chance_N = known.p_after_click * np.where(click_N, 1.0, view_N)
    convert_N = draws.uniform(keys, "convert") < chance_N
    delay_N = np.full(len(ad_N), np.nan)
    value_N = np.full(len(ad_N), np.nan)
    spending_N = np.exp(0.5 * draws.normal(at.who.key_U, "spending")[at.row_N])
    for index, kind in enumerate(world.conversions):
        window_s = kind.window_days * 86_400.0
        fast_N = draws.uniform(keys, "fast") < kind.fast_share
        mean_N = np.where(fast_N, kind.fast_s, kind.slow_days * 86_400.0)
        inside_N = draws.uniform(keys, "delay") * -np.expm1(-window_s / mean_N)  # cut at the window
        mine_N = known.type_N == index
        delay_N = np.where(mine_N, -mean_N * np.log1p(-inside_N), delay_N)
        value = kind.value * spending_N * np.exp(0.6 * draws.normal(keys, "value"))
        value_N = np.where(mine_N, np.round(value, 2), value_N)
    return Outcome(
        click_N=click_N, convert_N=convert_N, delay_s_N=np.where(convert_N, delay_N, np.nan),
        value_N=np.where(convert_N, value_N, np.nan),
    )  # fmt: skip


def ad_age_days(world: World, scale: Scale, day: int, ad_N: Longs) -> Longs:
    """Days since an ad started, [N]."""
    return day - ad_first_day(world, scale, ad_N)
