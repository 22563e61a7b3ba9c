"""Compute that a peer spends for its best NE over what an architecture needs for the same NE.

Measured, not extrapolated (ours): both lower envelopes are read within the range of compute that both were tried in.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from gem_pipeline.metrics.rows import FloatArray
from gem_pipeline.metrics.state import MetricState


@dataclass(frozen=True, kw_only=True, slots=True)
class ComputeRatio:
    """Compute for equal NE.

    Attributes:
        ratio: compute of the peer over the own, above 1: the own architecture needs less.
        ne: the peer's best NE in the common range.
        own_compute: FLOPs at which the own envelope reaches it.
        peer_compute: FLOPs that the peer spent.
        at_least: the own architecture reaches it with the least compute that was tried: the ratio is a lower bound.
    """

    ratio: float
    ne: float
    own_compute: float
    peer_compute: float
    at_least: bool


def compute_ratio(
    own_compute_P: ArrayLike, own_ne_P: ArrayLike, peer_compute_Q: ArrayLike, peer_ne_Q: ArrayLike
) -> ComputeRatio | MetricState:
    """Ratio of compute at the peer's best NE.

    Between two points of the own lower envelope NE is taken as linear in the logarithm of compute.

    Args:
        own_compute_P: FLOPs of each own training (means over seeds), shape [P].
        own_ne_P: NE of each, shape [P].
        peer_compute_Q: FLOPs of each training of the peer, shape [Q].
        peer_ne_Q: NE of each, shape [Q].

    Returns:
        The ratio; `too_few` where one of the two has no point in the common range, `not_reached` where the own
        architecture does not reach the peer's best NE within it.
    """
    own_C, own_E = _envelope(own_compute_P, own_ne_P)
    peer_C, peer_E = _envelope(peer_compute_Q, peer_ne_Q)
    if not own_C.size or not peer_C.size:
        return MetricState.TOO_FEW
    low, high = (
        max(np.min(own_compute_P), np.min(peer_compute_Q)), min(np.max(own_compute_P), np.max(peer_compute_Q)),
    )  # fmt: skip
    seen = peer_C <= high
    if high < low or not seen.any():
        return MetricState.TOO_FEW
    target, peer_compute = float(peer_E[seen][-1]), float(peer_C[seen][-1])
    reached = np.flatnonzero(own_E <= target)
    if not reached.size:
        return MetricState.NOT_REACHED
    place = int(reached[0])
    if place == 0:
        own_compute = float(own_C[0])
    else:
        share = (own_E[place - 1] - target) / (own_E[place - 1] - own_E[place])
        own_compute = float(np.exp(np.log(own_C[place - 1]) + share * np.log(own_C[place] / own_C[place - 1])))
    if own_compute > high * (1.0 + 1e-9):  # interpolation rounds
        return MetricState.NOT_REACHED
    return ComputeRatio(
        ratio=peer_compute / own_compute, ne=target, own_compute=own_compute, peer_compute=peer_compute,
        at_least=place == 0,
    )  # fmt: skip


def _envelope(compute_P: ArrayLike, ne_P: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Points that are better than every cheaper one, by rising compute."""
    computes_P, values_P = np.asarray(compute_P, dtype=np.float64), np.asarray(ne_P, dtype=np.float64)
    order = np.lexsort((values_P, computes_P))
    computes_P, values_P = computes_P[order], values_P[order]
    before_P = np.concatenate([[np.inf], np.minimum.accumulate(values_P)[:-1]]) if values_P.size else values_P
    better_P = values_P < before_P
    return computes_P[better_P], values_P[better_P]
