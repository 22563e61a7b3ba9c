"""Random numbers without a state: each is a hash of a seed, a purpose and the keys of what it is drawn for.

A day of a user comes out the same whichever rows are drawn beside it, in whatever order, on however many
workers. Ours; the mixing function is the finaliser of splitmix64 (Steele et al., 2014, section 5).
"""

from __future__ import annotations

import hashlib
from functools import cache

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri, pdtrik

Bits = npt.NDArray[np.uint64]
Floats = npt.NDArray[np.float64]
Longs = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

_STEP = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_UNIT = 2.0**-53


def _mix(bits: Bits) -> Bits:
    with np.errstate(over="ignore"):
        bits = (bits ^ (bits >> np.uint64(30))) * _FIRST
        bits = (bits ^ (bits >> np.uint64(27))) * _SECOND
    return bits ^ (bits >> np.uint64(31))


@cache
def _purpose(name: str) -> np.uint64:
    return np.uint64(int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "little"))


def key(seed: int, *parts: npt.ArrayLike) -> Bits:
    """Fold integer arrays (broadcast against each other) into one 64-bit key each."""
    with np.errstate(over="ignore"):
        folded = _mix(np.asarray(seed % 2**64, dtype=np.uint64) + _STEP)
        for part in parts:
            folded = _mix((folded + _STEP) ^ (np.asarray(part).astype(np.int64).view(np.uint64) * _FIRST))
    return np.asarray(folded)


def uniform(keys: Bits, purpose: str) -> Floats:
    """In the open interval (0, 1), one a key."""
    bits = _mix(keys ^ _purpose(purpose))
    return ((bits >> np.uint64(11)).astype(np.float64) + 0.5) * _UNIT


def normal(keys: Bits, purpose: str) -> Floats:
    """Standard normal, one a key."""
    return np.asarray(ndtri(uniform(keys, purpose)))


def exponential(keys: Bits, purpose: str) -> Floats:
    """Exponential with mean 1, one a key."""
    return -np.log(uniform(keys, purpose))


def gumbel(keys: Bits, purpose: str) -> Floats:
    """Standard Gumbel, one a key: the arg max of logits plus these is a draw from their softmax."""
    return -np.log(exponential(keys, purpose))


def integers(keys: Bits, purpose: str, high: npt.ArrayLike) -> Longs:
    """In [0, high), one a key."""
    return (uniform(keys, purpose) * np.asarray(high)).astype(np.int64)


def poisson(keys: Bits, purpose: str, mean: Floats) -> Longs:
    """Poisson counts of the given means, one a key; a mean of 0 gives 0."""
    draw = uniform(keys, purpose)
    with np.errstate(invalid="ignore"):
        count = np.ceil(pdtrik(draw, np.maximum(mean, 1e-12)))
    return np.where((mean > 0) & (draw > np.exp(-mean)), np.nan_to_num(count), 0).astype(np.int64)


def choice(keys: Bits, purpose: str, cumulative_NC: Floats) -> Longs:
    """Index into each row of cumulative probabilities [N, C] (last column 1), one a key."""
    return np.minimum(
        (uniform(keys, purpose)[:, None] >= cumulative_NC).sum(axis=1), cumulative_NC.shape[1] - 1
    ).astype(np.int64)
