"""Naive twins of the jagged kernels: one row after the other, one formula a line."""

from __future__ import annotations

import itertools
import math

import torch
from torch import Tensor


def rows_of(x: Tensor, offsets_B1: Tensor) -> list[Tensor]:
    """Cut a jagged tensor into its rows."""
    bounds = offsets_B1.tolist()
    return [x[start:end] for start, end in itertools.pairwise(bounds)]


def jagged_attention(
    q_THD: Tensor, k_THD: Tensor, v_THD: Tensor, q_offsets_B1: Tensor, kv_offsets_B1: Tensor
) -> Tensor:
    """Softmax attention of each row on its own, head by head, query by query."""
    out = torch.zeros_like(q_THD)
    q_bounds, kv_bounds = q_offsets_B1.tolist(), kv_offsets_B1.tolist()
    for row in range(len(q_bounds) - 1):
        keys = range(kv_bounds[row], kv_bounds[row + 1])
        if not keys:
            continue
        for query in range(q_bounds[row], q_bounds[row + 1]):
            for head in range(q_THD.shape[1]):
                scores = torch.stack([q_THD[query, head] @ k_THD[key, head] for key in keys])
                weights = torch.exp(scores / math.sqrt(q_THD.shape[2]))
                weights = weights / weights.sum()
                out[query, head] = sum(w * v_THD[key, head] for w, key in zip(weights, keys, strict=True))
    return out


def softmax_pool(score_TQ: Tensor, x_TD: Tensor, offsets_B1: Tensor) -> Tensor:
    """Softmax-weighted mean of each row, one for each column of the scores."""
    pooled = []
    for score, x in zip(rows_of(score_TQ, offsets_B1), rows_of(x_TD, offsets_B1), strict=True):
        weights = torch.exp(score) / torch.exp(score).sum(dim=0)
        pooled.append(torch.stack([(weights[:, [q]] * x).sum(dim=0) for q in range(score.shape[1])]))
    return torch.stack(pooled)


def rotate(x_HD: Tensor, position: int) -> Tensor:
    """Rotary embedding of one element by 2 x 2 rotation matrices (arXiv 2104.09864, equation 15)."""
    head_dim = x_HD.shape[1]
    out = torch.zeros_like(x_HD)
    for pair in range(head_dim // 2):
        angle = position * 10_000.0 ** (-2.0 * pair / head_dim)
        cos, sin = math.cos(angle), math.sin(angle)
        first, second = x_HD[:, 2 * pair], x_HD[:, 2 * pair + 1]
        out[:, 2 * pair] = cos * first - sin * second
        out[:, 2 * pair + 1] = sin * first + cos * second
    return out
