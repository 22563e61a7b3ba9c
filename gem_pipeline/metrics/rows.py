"""Checks that every metric makes on its rows before it computes anything.

The rules are ours. N rows. Labels are 0 or 1, probabilities lie in [0, 1], weights are finite and not negative.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gem_pipeline.errors import ConfigError

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


def checked_labels(label_N: ArrayLike) -> FloatArray:
    """Labels as float64 [N].

    Raises:
        ConfigError: not one-dimensional, or a value other than 0 and 1.
    """
    checked_N = _vector(label_N, what="labels")
    strangers = int(np.count_nonzero((checked_N != 0.0) & (checked_N != 1.0)))
    if strangers:
        raise ConfigError(
            f"{strangers} of {checked_N.size} labels are neither 0 nor 1.",
            remedy="Drop masked rows before computing a metric, and pass hard labels.",
        )
    return checked_N


def checked_probs(prob_N: ArrayLike, *, num_rows: int) -> FloatArray:
    """Probabilities as float64 [N].

    Raises:
        ConfigError: another length than `num_rows`, NaN, or a value outside [0, 1].
    """
    checked_N = _vector(prob_N, what="probabilities")
    _same_length(checked_N, num_rows, what="probabilities")
    strangers = int(np.count_nonzero(~((checked_N >= 0.0) & (checked_N <= 1.0))))
    if strangers:
        raise ConfigError(
            f"{strangers} of {num_rows} probabilities are NaN or outside [0, 1].",
            remedy="Apply the sigmoid to logits, and look for a diverged model.",
        )
    return checked_N


def checked_scores(score_N: ArrayLike, *, num_rows: int) -> FloatArray:
    """Ranking scores as float64 [N]; any order-preserving scale.

    Raises:
        ConfigError: another length than `num_rows`, or NaN.
    """
    checked_N = _vector(score_N, what="scores")
    _same_length(checked_N, num_rows, what="scores")
    if np.isnan(checked_N).any():
        raise ConfigError("A score is NaN and cannot be ranked.", remedy="Look for a diverged model.")
    return checked_N


def checked_weights(weight_N: ArrayLike | None, *, num_rows: int) -> FloatArray:
    """Weights as float64 [N]; ones where none are given.

    Raises:
        ConfigError: another length than `num_rows`, a negative weight, or one that is not finite.
    """
    if weight_N is None:
        return np.ones(num_rows)
    checked_N = _vector(weight_N, what="weights")
    _same_length(checked_N, num_rows, what="weights")
    if not (np.isfinite(checked_N).all() and (checked_N >= 0.0).all()):
        raise ConfigError("A weight is negative or not finite.", remedy="Pass weights of at least 0.")
    return checked_N


def user_positions(user_N: ArrayLike, *, num_rows: int) -> tuple[IntArray, int]:
    """Number the users 0 ... U - 1 in the order of their ids.

    Returns:
        Position of each row's user [N], and the number of users U.

    Raises:
        ConfigError: another length than `num_rows`.
    """
    users_N = np.asarray(user_N)
    if users_N.ndim != 1:
        raise ConfigError(f"users have shape {users_N.shape}.", remedy="Pass one value a row.")
    _same_length(users_N, num_rows, what="users")
    unique_U, position_N = np.unique(users_N, return_inverse=True)
    return position_N.astype(np.int64), int(unique_U.size)


def _vector(values: ArrayLike, *, what: str) -> FloatArray:
    vector_N = np.asarray(values, dtype=np.float64)
    if vector_N.ndim != 1:
        raise ConfigError(f"{what} have shape {vector_N.shape}.", remedy="Pass one value a row.")
    return vector_N


def _same_length(values_N: NDArray[np.generic], num_rows: int, *, what: str) -> None:
    if values_N.shape[0] != num_rows:
        raise ConfigError(
            f"{values_N.shape[0]} {what} for {num_rows} labels.",
            remedy="Pass arrays of the same rows in the same order.",
        )
