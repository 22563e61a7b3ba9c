"""Exact bounds for chance: a right program breaks one of them once in a billion seeds."""

from __future__ import annotations

import math

import numpy as np

CHANCE = 1e-9


def bernstein(prob_N) -> float:
    """Bound on |sum of labels - sum of probabilities| of independent labels (Bernstein, 1924)."""
    variance, log = float(np.sum(prob_N * (1 - prob_N))), math.log(2 / CHANCE)
    return log / 3 + math.sqrt(log**2 / 9 + 2 * variance * log)


def dkw(num: int) -> float:
    """Bound on the distance of an empirical distribution function from the true one (Massart, 1990)."""
    return math.sqrt(math.log(2 / CHANCE) / (2 * num))


def distance(value_N, distribution) -> float:
    """Largest distance between the empirical distribution function of values and a continuous one."""
    true_N = distribution(np.sort(value_N))
    steps = np.arange(len(true_N) + 1) / len(true_N)
    return float(max((steps[1:] - true_N).max(), (true_N - steps[:-1]).max()))


def calibrated(label_N, prob_N) -> bool:
    """Whether labels agree with their probabilities overall and within each tenth of the probabilities."""
    order = np.argsort(prob_N, kind="stable")
    return all(
        abs(label_N[rows].sum() - prob_N[rows].sum()) <= bernstein(prob_N[rows])
        for rows in (order, *np.array_split(order, 10))
        if len(rows)
    )
