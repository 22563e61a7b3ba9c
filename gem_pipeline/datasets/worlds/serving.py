"""The closed loop: given scoring functions, the world answers with the day's log. Ours.

A day is a pure function of world, scale, date, policies and assignment: budgets start anew, and what is pending
(late conversions) stands in the served rows themselves with the time at which it is known. Scoring and serving go
by ranges of users; the auction is one for all users, since they share the budgets. Memory: 200 bytes a request for
the auction, 200 for the log, as much again while either is put together, and one range of users at a time: a day of
1.1 million requests needs 0.8 GB and 15 seconds on one core.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gem_pipeline.datasets.worlds import draws
from gem_pipeline.datasets.worlds.auction import UNFILLED, AuctionConfig, Bids, Decided, auction
from gem_pipeline.datasets.worlds.content import daily_budget, num_advertisers
from gem_pipeline.datasets.worlds.draws import Flags, Floats, Longs
from gem_pipeline.datasets.worlds.policies import Policy
from gem_pipeline.datasets.worlds.population import day_index, users
from gem_pipeline.datasets.worlds.response import would_click
from gem_pipeline.datasets.worlds.serve import Requests, requests, serve
from gem_pipeline.datasets.worlds.tables import SERVED, served_table
from gem_pipeline.datasets.worlds.traffic import DAY_MS, event_id, midnight_ms
from gem_pipeline.datasets.worlds.world import Scale, World
from gem_pipeline.errors import ConfigError, PolicyError

Assign = Callable[[Longs], npt.NDArray[np.str_]]
_TIME = pa.timestamp("us", tz="UTC")
CANDIDATE_ROWS = pa.schema(
    [("request_id", pa.int64()), ("user_id", pa.int64()), ("content_id", pa.int64()), ("surface", pa.string()),
     ("event_ts", _TIME), ("position", pa.int32()), ("bid", pa.float64()), ("advertiser_id", pa.int64())]
)  # fmt: skip


def split(shares: Mapping[str, float], *, seed: int) -> Assign:
    """Arms by a hash of the user, each with its share of the users.

    Raises:
        ConfigError: shares are not positive or do not sum to 1.
    """
    if not shares or min(shares.values()) <= 0 or abs(sum(shares.values()) - 1) > 1e-9:
        raise ConfigError(f"Shares {dict(shares)} of the arms are not positive with sum 1.", remedy="Mend the split.")
    names, edges = np.array(list(shares)), np.cumsum(list(shares.values()))[None, :]

    def assign(user_N: Longs) -> npt.NDArray[np.str_]:
        return names[draws.choice(draws.key(seed, 71, user_N), "arm", np.repeat(edges, len(user_N), axis=0))]

    return assign


@dataclass(frozen=True, kw_only=True)
class ServedDay:
    """A day's answer.

    Attributes:
        log: filled requests, schema `tables.SERVED`; `policy` is the arm, `price` what a click cost.
        advertisers: advertiser_id, budget, spend, utilisation, clicks, mean and last multiplier of each advertiser.
        arms: requests, unfilled, clicks, expected_clicks (true), revenue of each arm.
    """

    log: pa.Table
    advertisers: pa.Table
    arms: pa.Table


@dataclass(frozen=True, kw_only=True)
class ServingLoop:
    """Serves days of a world by the policies of several arms.

    Attributes:
        policies: arm, then surface, to scoring function.
        assign: arm of each user, deterministic.
        users_at_a_time: users that are scored together.
    """

    world: World
    scale: Scale
    policies: Mapping[str, Mapping[str, Policy]]
    assign: Assign
    config: AuctionConfig = field(default_factory=AuctionConfig)
    users_at_a_time: int = 5000

    def __post_init__(self) -> None:
        """Check that every arm scores every surface."""
        surfaces = set(self.world.surface_names())
        for arm, by_surface in self.policies.items():
            if set(by_surface) != surfaces:
                raise ConfigError(
                    f"Arm {arm} scores {sorted(by_surface)}; the surfaces are {sorted(surfaces)}.",
                    remedy="Give every arm one scoring function a surface.",
                )
        if not self.policies or self.users_at_a_time < 1:
            raise ConfigError("There is no arm, or no user at a time.", remedy="Give at least one of each.")

    def serve(self, date: str) -> ServedDay:
        """Answer with a day's log.

        Raises:
            ConfigError: the date is no day with impressions, or a user has an unknown arm.
            PolicyError: a scoring function gave something other than one probability a candidate.
        """
        day = day_index(self.scale, date)
        if not 0 <= day < self.scale.days:
            raise ConfigError(f"The world has no impressions on {date}.", remedy=f"It has {self.scale.days} days.")
        parts = [self._bids(asked) for asked in self._requests(day)]
        bids = Bids(**{name: np.concatenate([getattr(b, name) for b in parts]) for name in Bids.__dataclass_fields__})
        advertiser_A = np.arange(1, num_advertisers(self.world, self.scale) + 1)
        budget_A = daily_budget(self.world, self.scale, advertiser_A) * self.config.budget_scale
        decided = auction(bids, budget_A, self.config)
        logs, asked_by_arm, start = [], dict.fromkeys(self.policies, 0), 0
        for asked in self._requests(day):
            stop = start + len(asked.ad_NK)
            arm_N = self._arms(asked)
            for arm in self.policies:
                asked_by_arm[arm] += int((arm_N == arm).sum())
            logs.append(self._log(asked, arm_N, decided.chosen_N[start:stop], decided.price_N[start:stop], date))
            start = stop
        log = pa.concat_tables(logs).cast(SERVED)
        return ServedDay(
            log=log, advertisers=_advertisers(bids, decided, advertiser_A, budget_A), arms=_arms(log, asked_by_arm)
        )

    def _requests(self, day: int) -> Iterator[Requests]:
        for first in range(0, self.scale.users, self.users_at_a_time):
            who = users(self.world, self.scale, first, first + self.users_at_a_time)
            yield requests(self.world, self.scale, who, day)

    def _arms(self, asked: Requests) -> npt.NDArray[np.str_]:
        arm_N = np.asarray(self.assign(asked.slots.at.user_N))
        unknown_N = ~np.isin(arm_N, list(self.policies)) if arm_N.shape == asked.slots.at.row_N.shape else np.ones(1)
        if unknown_N.any():
            raise ConfigError(
                f"The assignment gave {len(arm_N)} arms for {len(asked.slots.at.row_N)} requests, "
                f"{int(unknown_N.sum())} of them unknown.",
                remedy=f"Assign each user to one of {sorted(self.policies)}.",
            )
        return arm_N

    def _bids(self, asked: Requests) -> Bids:
        at, arm_N = asked.slots.at, self._arms(asked)
        prob_NK = np.zeros(asked.ad_NK.shape)
        for arm, by_surface in self.policies.items():
            for index, surface in enumerate(self.world.surface_names()):
                mine_NK = asked.eligible_NK & ((arm_N == arm) & (at.surface_N == index))[:, None]
                if mine_NK.any():
                    rows = _candidate_rows(self.world, self.scale, asked, mine_NK)
                    prob_NK[mine_NK] = _checked(by_surface[surface](rows), rows.num_rows, arm=arm, surface=surface)
        every = at.take(np.repeat(np.arange(len(arm_N)), prob_NK.shape[1]))
        past_N = asked.slots.time_ms_N - midnight_ms(self.scale, at.day)
        return Bids(
            time_N=np.minimum(past_N * self.config.slots // DAY_MS, self.config.slots - 1).astype(np.int16),
            advertiser_NK=(asked.advertiser_NK - 1).astype(np.int32), prob_NK=prob_NK,
            bid_NK=np.where(asked.eligible_NK, asked.bid_NK, 0.0),
            click_NK=would_click(self.world, self.scale, every, asked.ad_NK.ravel()).reshape(prob_NK.shape),
        )  # fmt: skip

    def _log(
        self, asked: Requests, arm_N: npt.NDArray[np.str_], chosen_N: Longs, price_N: Floats, date: str
    ) -> pa.Table:
        rows = np.flatnonzero(chosen_N != UNFILLED)
        filled = asked.take(rows)
        served = serve(self.world, self.scale, filled, chosen_N[rows], np.ones(len(rows)), price_N[rows])
        table = served_table(self.world, self.scale, served, date, "")
        arms = pa.array(arm_N[rows].tolist(), pa.string())
        return table.set_column(table.schema.get_field_index("policy"), "policy", arms)


def _candidate_rows(world: World, scale: Scale, asked: Requests, mine_NK: Flags) -> pa.Table:
    """What a platform knows of candidates when it scores them, schema `CANDIDATE_ROWS`."""
    row_R, _ = np.nonzero(mine_NK)
    at = asked.slots.at
    surfaces = pa.array(world.surface_names(), pa.string())
    columns = [
        pa.array(event_id(at, scale)[row_R]), pa.array(at.user_N[row_R]), pa.array(asked.ad_NK[mine_NK]),
        surfaces.take(pa.array(at.surface_N[row_R])), pa.array(asked.slots.time_ms_N[row_R] * 1000).cast(_TIME),
        pa.array(at.position_N[row_R].astype(np.int32)), pa.array(asked.bid_NK[mine_NK]),
        pa.array(asked.advertiser_NK[mine_NK]),
    ]  # fmt: skip
    return pa.Table.from_arrays(columns, schema=CANDIDATE_ROWS)


def _checked(score: npt.ArrayLike, num: int, *, arm: str, surface: str) -> Floats:
    prob_R = np.asarray(score, dtype=np.float64)
    remedy = "A scoring function gives one probability in [0, 1] for each candidate."
    if prob_R.shape != (num,):
        raise PolicyError(
            f"Arm {arm} on surface {surface} gave scores of shape {prob_R.shape} for {num} candidates.", remedy=remedy
        )
    bad = int((~((prob_R >= 0) & (prob_R <= 1))).sum())  # NaN fails both
    if bad:
        raise PolicyError(
            f"Arm {arm} on surface {surface} gave {bad} of {num} scores that are no probability.", remedy=remedy
        )
    return prob_R


def _advertisers(bids: Bids, decided: Decided, advertiser_A: Longs, budget_A: Floats) -> pa.Table:
    rows = np.flatnonzero(decided.chosen_N != UNFILLED)
    chosen = decided.chosen_N[rows]
    clicks_A = np.bincount(
        bids.advertiser_NK[rows, chosen], bids.click_NK[rows, chosen], minlength=len(budget_A)
    ).astype(np.int64)
    spend_A = decided.spend_SA.sum(axis=0)
    return pa.table(
        {"advertiser_id": advertiser_A, "budget": budget_A, "spend": spend_A, "utilisation": spend_A / budget_A,
         "clicks": clicks_A, "mean_multiplier": decided.multiplier_SA.mean(axis=0),
         "last_multiplier": decided.multiplier_SA[-1]}
    )  # fmt: skip


def _arms(log: pa.Table, asked_by_arm: Mapping[str, int]) -> pa.Table:
    names = list(asked_by_arm)
    arm_N = np.searchsorted(sorted(names), log["policy"].to_numpy())
    place = np.argsort(np.argsort(names))  # of each arm among the sorted ones

    def total(weight_N: Floats | None = None) -> Floats:
        return np.bincount(arm_N, weight_N, minlength=len(names))[place].astype(np.float64)

    click_N, price_N = log["is_click"].to_numpy().astype(np.float64), log["price"].to_numpy().astype(np.float64)
    asked_A, filled_A = np.array(list(asked_by_arm.values())), total()
    return pa.table(
        {"arm": names, "requests": asked_A, "unfilled": (asked_A - filled_A).astype(np.int64),
         "clicks": total(click_N).astype(np.int64), "expected_clicks": total(log["p_click"].to_numpy()),
         "revenue": total(click_N * price_N)}
    )  # fmt: skip
