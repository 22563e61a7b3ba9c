"""AUC by comparing every pair: quadratic, obviously right."""

from __future__ import annotations

from collections.abc import Sequence


def pairwise_auc(label_N: Sequence[float], score_N: Sequence[float], weight_N: Sequence[float]) -> float | None:
    """Weighted share of pairs that the positive wins, ties one half; None without both classes."""
    wins, pairs = 0.0, 0.0
    for label_p, score_p, weight_p in zip(label_N, score_N, weight_N, strict=True):
        for label_n, score_n, weight_n in zip(label_N, score_N, weight_N, strict=True):
            if label_p == 1 and label_n == 0:
                pairs += weight_p * weight_n
                wins += weight_p * weight_n * (1.0 if score_p > score_n else 0.5 if score_p == score_n else 0.0)
    return wins / pairs if pairs > 0 else None


def pairwise_gauc(label_N: Sequence[float], score_N: Sequence[float], user_N: Sequence[int]) -> float | None:
    """Impression-weighted mean of the users' pairwise AUCs; None where no user has both classes."""
    total, weighted = 0, 0.0
    for user in set(user_N):
        rows = [i for i, other in enumerate(user_N) if other == user]
        auc = pairwise_auc([label_N[i] for i in rows], [score_N[i] for i in rows], [1.0] * len(rows))
        if auc is not None:
            total, weighted = total + len(rows), weighted + len(rows) * auc
    return weighted / total if total else None
