"""Second-price auctions of a day under budgets that all surfaces and arms share, with pacing. Ours.

The ranking and the price follow Varian (2007), "Position auctions", for one position: rank by bid times predicted
click probability, pay per click what keeps the rank. Pacing multiplies bids, as in Conitzer et al. (2022),
"Multiplicative pacing equilibria in auction markets"; the controller is ours, see `paced`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gem_pipeline.datasets.worlds.draws import Flags, Floats, Longs
from gem_pipeline.errors import ConfigError

MICRO = 1_000_000  # money is booked in whole millionths: sums do not depend on the order of rows
UNFILLED = -1
LOWEST = -10.0  # logarithm of the smallest multiplier of an advertiser with budget left


@dataclass(frozen=True, kw_only=True, slots=True)
class AuctionConfig:
    """Rules of the auctions.

    Attributes:
        slots: a day is cut into so many; within one, all requests are decided at once with the same multipliers.
        reserve: least price of a click, currency units.
        pace: how hard bids are cut where spend runs ahead: each ln(2) / pace of the budget halves them.
        budget_scale: factor on every daily budget; infinity: there are no budgets, so users do not interfere.
    """

    slots: int = 96
    reserve: float = 0.05
    pace: float = 20.0
    budget_scale: float = 1.0

    def __post_init__(self) -> None:
        """Check the rules above."""
        rules = (
            (1 <= self.slots <= 1440, f"{self.slots} slots are not in [1, 1440]"),
            (0 < self.reserve < float("inf"), f"reserve {self.reserve} is not a price above 0"),
            (0 <= self.pace < float("inf"), f"pace {self.pace} is not at least 0"),
            (self.budget_scale > 0, f"budget_scale {self.budget_scale} is not above 0"),
        )
        for holds, rule in rules:
            if not holds:
                raise ConfigError(f"Impossible auction: {rule}.", remedy="Mend the auction's configuration.")


@dataclass(frozen=True, kw_only=True)
class Bids:
    """The requests of a day and what is bid for each, N requests and K candidates; 190 bytes a request at K = 8.

    Attributes:
        time_N: slot of the day.
        advertiser_NK: index of the advertiser, from 0.
        bid_NK: value of a click, currency units; 0 where the candidate may not be shown.
        prob_NK: predicted click probability.
        click_NK: whether the user would click; the auction looks only at the winner's.
    """

    time_N: npt.NDArray[np.int16]
    advertiser_NK: npt.NDArray[np.int32]
    bid_NK: Floats
    prob_NK: Floats
    click_NK: Flags


@dataclass(frozen=True, kw_only=True)
class Decided:
    """What the auctions of a day came to, S slots and A advertisers.

    Attributes:
        chosen_N: index of the winning candidate; `UNFILLED` where nobody bid.
        price_N: price of a click, currency units; 0 where unfilled.
        spend_SA: what was paid, currency units.
        multiplier_SA: factor on the bids; 0 where the budget was gone.
    """

    chosen_N: Longs
    price_N: Floats
    spend_SA: Floats
    multiplier_SA: Floats


def paced(log_A: Floats, *, spent_A: Floats, now_A: Floats, decided: float, asked: float, pace: float) -> Floats:
    """Logarithms of the multipliers after a slot, [A]; multipliers start at 1 and never exceed it.

    Even spend would be what was left of the budget, spread over what was left of the day's requests; the logarithm
    falls by `pace` times what was spent above that and rises by as much below. The forecast of traffic is right: it
    is the day's own.

    Args:
        log_A: logarithms during the slot.
        spent_A: share of the budget spent before the slot.
        now_A: share of the budget spent in the slot.
        decided: share of the day's requests before the slot.
        asked: share of the day's requests in the slot.
        pace: see `AuctionConfig`.
    """
    even_A = asked * np.maximum(1 - spent_A, 0.0) / (1 - decided)
    return np.clip(log_A - pace * (now_A - even_A), LOWEST, 0.0)


def auction(bids: Bids, budget_A: Floats, config: AuctionConfig) -> Decided:
    """Decide every request of a day, slot by slot.

    A candidate bids its value times its multiplier where that is at least the reserve and its predicted probability
    is above 0. The winner pays per click the runner-up's bid times probability over its own probability, at least
    the reserve and at most its own bid. What clicks cost is booked after the slot: an advertiser overspends by less
    than what it spends in the slot in which its budget ends. The order of requests within a slot does not matter.

    Args:
        bids: requests, candidates, predictions.
        budget_A: daily budgets, currency units, above 0.
        config: rules.
    """
    num, advertisers = len(bids.time_N), len(budget_A)
    chosen_N = np.full(num, UNFILLED, dtype=np.int64)
    micro_N = np.zeros(num, dtype=np.int64)
    spend_SA = np.zeros((config.slots, advertisers), dtype=np.int64)
    multiplier_SA = np.zeros((config.slots, advertisers))
    order_N = np.argsort(bids.time_N, kind="stable")
    edge_S = np.searchsorted(bids.time_N[order_N], np.arange(config.slots + 1))
    log_A = np.zeros(advertisers)
    for slot in range(config.slots):
        spent_A = spend_SA[:slot].sum(axis=0) / MICRO / budget_A
        multiplier_SA[slot] = np.where(spent_A < 1, np.exp(log_A), 0.0)
        row_R = order_N[edge_S[slot] : edge_S[slot + 1]]
        if not len(row_R):
            continue
        chosen_N[row_R], micro_N[row_R] = _decide(bids, row_R, multiplier_SA[slot], config.reserve)
        paying_P = row_R[(chosen_N[row_R] != UNFILLED) & bids.click_NK[row_R, chosen_N[row_R]]]
        np.add.at(spend_SA[slot], bids.advertiser_NK[paying_P, chosen_N[paying_P]], micro_N[paying_P])
        log_A = paced(
            log_A, spent_A=spent_A, now_A=spend_SA[slot] / MICRO / budget_A, decided=edge_S[slot] / num,
            asked=len(row_R) / num, pace=config.pace,
        )  # fmt: skip
    return Decided(chosen_N=chosen_N, price_N=micro_N / MICRO, spend_SA=spend_SA / MICRO, multiplier_SA=multiplier_SA)


def _decide(bids: Bids, row_R: Longs, multiplier_A: Floats, reserve: float) -> tuple[Longs, Longs]:
    """Winner of each request of a slot and its price of a click in millionths, [R] each."""
    each_R = np.arange(len(row_R))
    paced_RK = bids.bid_NK[row_R] * multiplier_A[bids.advertiser_NK[row_R]]
    score_RK = np.where(paced_RK >= reserve, paced_RK * bids.prob_NK[row_R], 0.0)
    chosen_R = score_RK.argmax(axis=1)
    filled_R = score_RK[each_R, chosen_R] > 0
    score_RK[each_R, chosen_R] = 0.0
    prob_R = np.where(filled_R, bids.prob_NK[row_R, chosen_R], 1.0)
    price_R = np.maximum(np.minimum(score_RK.max(axis=1) / prob_R, paced_RK[each_R, chosen_R]), reserve)
    micro_R = np.floor(price_R * MICRO).astype(np.int64)
    return np.where(filled_R, chosen_R, UNFILLED), np.where(filled_R, micro_R, 0)
