"""AUC and GAUC, exact under ties.

GAUC as in Zhou et al., 2018 ("Deep interest network", section 6.2): the AUC of each user, weighted by
the user's impressions; users with one class only have no AUC and do not count.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from gem_pipeline.metrics.rows import (
    FloatArray,
    IntArray,
    checked_labels,
    checked_scores,
    checked_weights,
    user_positions,
)
from gem_pipeline.metrics.state import MetricState


def auc(label_N: ArrayLike, score_N: ArrayLike, weight_N: ArrayLike | None = None) -> float | MetricState:
    """Probability that a random positive outranks a random negative; a tie counts one half.

    Args:
        label_N: 0 or 1, shape [N].
        score_N: any score, higher means more likely, shape [N].
        weight_N: importance, at least 0, shape [N]; ones by default.

    Returns:
        In [0, 1]; a state where there are no rows or only one class carries weight.

    Raises:
        ConfigError: lengths differ, or a value breaks its rule.
    """
    labels_N = checked_labels(label_N)
    scores_N = checked_scores(score_N, num_rows=labels_N.size)
    weights_N = checked_weights(weight_N, num_rows=labels_N.size)
    if weights_N.sum() <= 0.0:
        return MetricState.NO_ROWS
    positive_N = labels_N == 1.0
    order = np.argsort(scores_N[~positive_N], kind="stable")
    negatives_M = scores_N[~positive_N][order]
    below_M1 = np.concatenate(([0.0], np.cumsum(weights_N[~positive_N][order])))
    weight_P = weights_N[positive_N]
    total = weight_P.sum() * below_M1[-1]
    if total <= 0.0:
        return MetricState.ONE_CLASS
    first_P = np.searchsorted(negatives_M, scores_N[positive_N], side="left")
    last_P = np.searchsorted(negatives_M, scores_N[positive_N], side="right")
    return float(weight_P @ (below_M1[first_P] + below_M1[last_P]) / (2.0 * total))


def gauc(label_N: ArrayLike, score_N: ArrayLike, user_N: ArrayLike) -> float | MetricState:
    """Average of the users' AUCs, weighted by their impressions.

    Args:
        label_N: 0 or 1, shape [N].
        score_N: any score, shape [N].
        user_N: the user of each row, shape [N].

    Returns:
        In [0, 1]; `no_mixed_user` where no user has both classes, `no_rows` and `one_class` as for AUC.

    Raises:
        ConfigError: lengths differ, or a value breaks its rule.
    """
    labels_N = checked_labels(label_N)
    scores_N = checked_scores(score_N, num_rows=labels_N.size)
    position_N, num_users = user_positions(user_N, num_rows=labels_N.size)
    if labels_N.size == 0:
        return MetricState.NO_ROWS
    if labels_N.min() == labels_N.max():
        return MetricState.ONE_CLASS
    auc_U, rows_U = user_aucs(labels_N, scores_N, position_N, num_users=num_users)
    if rows_U.sum() == 0.0:
        return MetricState.NO_MIXED_USER
    return float(auc_U @ rows_U / rows_U.sum())


def user_aucs(
    label_N: FloatArray, score_N: FloatArray, position_N: IntArray, *, num_users: int
) -> tuple[FloatArray, FloatArray]:
    """AUC of each user by mid-ranks, all users at once.

    Args:
        label_N: checked labels [N].
        score_N: checked scores [N].
        position_N: position of each row's user in 0 ... U - 1 [N].
        num_users: U.

    Returns:
        AUC [U] (0 for users without both classes) and the rows that it stands for [U] (0 for those users).
    """
    order_N = np.lexsort((score_N, position_N))
    user_N, sorted_N, positive_N = position_N[order_N], score_N[order_N], label_N[order_N]
    opens_group_N = np.ones(user_N.size, dtype=bool)
    opens_group_N[1:] = (user_N[1:] != user_N[:-1]) | (sorted_N[1:] != sorted_N[:-1])
    group_N = np.cumsum(opens_group_N) - 1
    start_G = np.flatnonzero(opens_group_N)
    middle_G = (start_G + np.append(start_G[1:], user_N.size) - 1) / 2.0
    rows_U = np.bincount(position_N, minlength=num_users).astype(np.float64)
    first_U = np.cumsum(rows_U) - rows_U
    rank_N = middle_G[group_N] - first_U[user_N]  # from 0, ties share their mean rank
    positives_U = np.bincount(user_N, weights=positive_N, minlength=num_users)
    rank_sum_U = np.bincount(user_N, weights=rank_N * positive_N, minlength=num_users)
    pairs_U = positives_U * (rows_U - positives_U)
    wins_U = rank_sum_U - positives_U * (positives_U - 1.0) / 2.0
    mixed_U = pairs_U > 0.0
    return np.where(mixed_U, wins_U / np.where(mixed_U, pairs_U, 1.0), 0.0), np.where(mixed_U, rows_U, 0.0)
