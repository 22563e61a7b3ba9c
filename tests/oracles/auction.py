"""The auction of a day, one request at a time, in plain Python."""

from __future__ import annotations

import math


def auction(time, advertiser, bid, prob, click, budget, *, slots, reserve, pace):
    """Winner (-1: none) and price of each request; budgets in currency units."""
    chosen, price = [-1] * len(time), [0.0] * len(time)
    spent, log, decided = [0.0] * len(budget), [0.0] * len(budget), 0
    for slot in range(slots):
        factor = [0.0 if s >= b else math.exp(x) for s, b, x in zip(spent, budget, log, strict=True)]
        before = list(spent)
        mine = [row for row in range(len(time)) if time[row] == slot]
        for row in mine:
            ranked = []
            for k, (a, b, p) in enumerate(zip(advertiser[row], bid[row], prob[row], strict=True)):
                if b * factor[a] >= reserve and p > 0:
                    ranked.append((-b * factor[a] * p, k))
            ranked.sort()
            if ranked:
                chosen[row] = winner = ranked[0][1]
                own = bid[row][winner] * factor[advertiser[row][winner]]
                second = -ranked[1][0] / prob[row][winner] if len(ranked) > 1 else 0.0
                price[row] = math.floor(1e6 * max(min(second, own), reserve)) / 1e6
        for row in mine:
            if chosen[row] >= 0 and click[row][chosen[row]]:
                spent[advertiser[row][chosen[row]]] += price[row]
        for a, b in enumerate(budget):
            even = len(mine) / (len(time) - decided) * max(1 - before[a] / b, 0.0) if mine else 0.0
            log[a] = min(0.0, max(-10.0, log[a] - pace * ((spent[a] - before[a]) / b - even)))
        decided += len(mine)
    return chosen, price
