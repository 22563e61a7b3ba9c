"""What a world is made of: surfaces, conversions, interests and the weights of the true logit.

All rates are a function of these numbers and of hashed draws; nothing is learnt from a log. Ours.
"""

from __future__ import annotations

from dataclasses import dataclass

from gem_pipeline.errors import ConfigError

CANDIDATES = 8  # ads that compete for an impression
SESSION = 12  # slots of a session, organic and ads
LAST_EVENTS = 20  # what "recent" means in a world without long-range signal
FORMATS = ("image", "video", "carousel", "text")
CHANNELS = ("auction", "reserved")
GOALS = ("traffic", "purchase", "lead", "conversation")
ORGANIC_KINDS = (
    "view", "like", "share", "comment", "message", "hide", "survey_positive", "survey_negative",
)  # fmt: skip
AD_KINDS = ("ad_view", "click")


def _require(holds: bool, rule: str, remedy: str) -> None:
    if not holds:
        raise ConfigError(f"Impossible world: {rule}.", remedy=remedy)


@dataclass(frozen=True, kw_only=True, slots=True)
class Surface:
    """A place where people meet content and ads.

    Attributes:
        share: of all sessions, before each user's own taste.
        ad_every: one slot in so many is an ad.
        click_bias: logit of a click of an average ad in the first position.
        interest_sign: -1: what a user likes elsewhere repels here (the unfair case).
        position_decay: logit lost for each doubling of the position (1, 2, 3, ... within a session).
        dwell_s: median dwell time of a slot in seconds.
        social: logit added to likes, shares and comments.
        goals: advertiser goals that the surface sells.
    """

    name: str
    share: float
    ad_every: int
    click_bias: float
    interest_sign: float = 1.0
    position_decay: float = 0.25
    dwell_s: float = 6.0
    social: float = 0.0
    goals: tuple[str, ...] = GOALS

    def __post_init__(self) -> None:
        """Check the rules above."""
        remedy = f"Mend surface {self.name} of the world."
        _require(0 < self.share <= 1, f"share of {self.name} is {self.share}, not in (0, 1]", remedy)
        _require(2 <= self.ad_every <= SESSION, f"ad_every of {self.name} must lie in [2, {SESSION}]", remedy)
        _require(self.dwell_s > 0, f"dwell_s of {self.name} must be above 0", remedy)
        _require(bool(self.goals), f"surface {self.name} sells no goal", remedy)


@dataclass(frozen=True, kw_only=True, slots=True)
class ConversionType:
    """What an advertiser wants beyond the click, and how long it takes.

    Attributes:
        name: also the event kind and the advertiser goal that asks for it.
        bias: logit of a conversion of an average clicker.
        window_days: nothing converts later than this after the impression.
        fast_share: share of conversions with a delay of mean `fast_s` seconds; the others have mean `slow_days`.
            Both are exponentials cut at the window.
        view_rate: chance without a click, relative to the chance with one.
        value: median value in currency units.
    """

    name: str
    bias: float
    window_days: int
    fast_share: float
    fast_s: float = 1200.0
    slow_days: float = 2.0
    view_rate: float = 0.03
    value: float = 20.0

    def __post_init__(self) -> None:
        """Check the rules above."""
        remedy = f"Mend conversion {self.name} of the world."
        _require(self.name in GOALS, f"conversion {self.name} is none of the goals {GOALS}", remedy)
        _require(1 <= self.window_days <= 90, f"window_days of {self.name} must lie in [1, 90]", remedy)
        _require(0 <= self.fast_share <= 1, f"fast_share of {self.name} must lie in [0, 1]", remedy)
        _require(0 <= self.view_rate < 1, f"view_rate of {self.name} must lie in [0, 1)", remedy)
        _require(min(self.fast_s, self.slow_days, self.value) > 0, f"times and value of {self.name} above 0", remedy)


@dataclass(frozen=True, kw_only=True, slots=True)
class World:
    """A world's nature, independent of its size.

    Attributes:
        property: the documented property, one sentence; a test verifies it from the truth alone.
        long_weight: logit of a long-lived interest of one standard deviation.
        short_weight: logit of an ad on the topic of the user's short-lived interest.
        episode_events: a short-lived interest lasts so many slots of a day; 0: `short_days` days.
        journey_weight: logit at the peak of a purchase journey (28-day blocks, stages on different surfaces).
        attribute_weight: scale of effects of age, device and region.
        taste_weight: standard deviation, in the logit, of a taste for who, what and where together.
        quality_std: standard deviation of an ad's quality in the logit, constant over the ad's life.
        vector_signal: share (of variance) of an ad's quality that its image vector shows.
        hidden_std: standard deviation of the latent of an impression that no table holds.
        long_focus: how strongly what is shown follows long-lived interests (exponent of a softmax).
        short_focus: chance that an organic slot shows the topic of the short-lived interest.
        drift_weight: logit amplitude of each topic's drift, with `drift_days` as the period.
        season_weight: logit amplitude of each topic's year.
        join_share: share of users who join within the days of the log; the others were there before.
        churn_days: mean days from joining to leaving.
        ad_days: days that an ad lives.
        heavy_every: one user in so many has `heavy_events` events a day; 0: none.
    """

    name: str
    property: str
    surfaces: tuple[Surface, ...]
    conversions: tuple[ConversionType, ...]
    topics: int = 24
    long_weight: float = 0.7
    short_weight: float = 0.8
    episode_events: int = 0
    short_days: int = 3
    journey_weight: float = 1.2
    attribute_weight: float = 0.25
    taste_weight: float = 0.0
    quality_std: float = 0.5
    vector_signal: float = 0.5
    hidden_std: float = 0.7
    long_focus: float = 0.8
    short_focus: float = 0.3
    drift_weight: float = 0.0
    drift_days: float = 0.0
    season_weight: float = 0.2
    join_share: float = 0.15
    churn_days: float = 400.0
    ad_days: int = 14
    heavy_every: int = 20_000
    heavy_events: int = 5000

    def __post_init__(self) -> None:
        """Check the rules above."""
        remedy = f"Mend world {self.name}."
        _require(len({s.name for s in self.surfaces}) == len(self.surfaces) > 0, "surfaces must differ", remedy)
        total = sum(surface.share for surface in self.surfaces)
        _require(abs(total - 1) < 1e-9, f"shares of the surfaces sum to {total}, not 1", remedy)
        _require(2 <= self.topics <= 64, "topics must lie in [2, 64]", remedy)
        _require(self.hidden_std > 0, "hidden_std must be above 0: some truth must stay hidden", remedy)
        _require(self.episode_events <= LAST_EVENTS, f"an episode has at most {LAST_EVENTS} events", remedy)
        _require(0 <= self.short_focus <= 0.7, "short_focus must lie in [0, 0.7]", remedy)
        _require(0 <= self.vector_signal <= 1, "vector_signal must lie in [0, 1]", remedy)
        _require(0 <= self.join_share < 1, "join_share must lie in [0, 1)", remedy)
        _require((self.drift_weight == 0) == (self.drift_days == 0), "drift needs a weight and a period", remedy)
        _require(min(self.ad_days, self.short_days) >= 1, "ad_days and short_days must be at least 1", remedy)
        _require(self.heavy_every >= 0 and 0 < self.heavy_events <= 50_000, "heavy_events in (0, 50 000]", remedy)
        wanted = {c.name for c in self.conversions}
        sold = {goal for surface in self.surfaces for goal in surface.goals}
        _require(wanted <= sold, f"no surface sells {sorted(wanted - sold)}", remedy)

    def surface_names(self) -> tuple[str, ...]:
        """Names of the surfaces, in order."""
        return tuple(surface.name for surface in self.surfaces)

    def kinds(self) -> tuple[str, ...]:
        """Every event kind, organic, ad and conversion."""
        return (*ORGANIC_KINDS, *AD_KINDS, *(c.name for c in self.conversions))


@dataclass(frozen=True, kw_only=True, slots=True)
class Scale:
    """How much of a world there is. `population.scale_for` finds the users that make a wanted number of events.

    Attributes:
        users: users of the population, ids 1 ... users.
        first_day: first day with organic events, yyyy-mm-dd.
        history_days: days before the first impressions: organic events only.
        days: days with impressions.
        events_a_day: mean organic and ad events of a user and day, before life cycle and season.
        seed: another seed makes another population of the same world.
    """

    users: int
    first_day: str = "2026-01-01"
    history_days: int = 7
    days: int = 14
    events_a_day: float = 20.0
    seed: int = 0

    def __post_init__(self) -> None:
        """Check the rules above."""
        remedy = "Mend `world` in the data contract; `events` over days and events_a_day makes the users."
        _require(20 <= self.users < 2**29, f"{self.users} users are not in [20, 2^29)", remedy)
        _require(self.days >= 1 and self.days + self.history_days < 2**14, "days must lie in [1, 16 383]", remedy)
        _require(self.history_days >= 0, "history_days must be at least 0", remedy)
        _require(1 <= self.events_a_day <= 500, "events_a_day must lie in [1, 500]", remedy)
