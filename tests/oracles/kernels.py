"""Naive twins of the windowed, pointwise and pooling kernels: loops over rows, heads and elements."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from tests.oracles.attention import rows_of


def near_attention(q_THD: Tensor, k_THD: Tensor, v_THD: Tensor, offsets_B1: Tensor, sees: object) -> Tensor:
    """Softmax over the elements j of the own row that `sees(i, j, length)` allows, ages counted from the newest."""
    rows = zip(*(rows_of(x, offsets_B1) for x in (q_THD, k_THD, v_THD)), strict=True)
    out = []
    for q, k, v in rows:
        length = q.shape[0]
        for i in range(length):
            seen = [j for j in range(length) if sees(length - 1 - i, length - 1 - j)]
            heads = []
            for head in range(q.shape[1]):
                scores = torch.stack([q[i, head] @ k[j, head] for j in seen]) / math.sqrt(q.shape[2])
                weights = torch.exp(scores) / torch.exp(scores).sum()
                heads.append(sum(w * v[j, head] for w, j in zip(weights, seen, strict=True)))
            out.append(torch.stack(heads))
    return torch.stack(out) if out else torch.zeros_like(q_THD)


def block_attention(q_THD: Tensor, k_THD: Tensor, v_THD: Tensor, offsets_B1: Tensor, block: int) -> Tensor:
    """Elements of one age block see each other."""
    return near_attention(q_THD, k_THD, v_THD, offsets_B1, lambda i, j: i // block == j // block)


def window_attention(q_THD: Tensor, k_THD: Tensor, v_THD: Tensor, offsets_B1: Tensor, window: int) -> Tensor:
    """Elements at most `window` apart see each other."""
    return near_attention(q_THD, k_THD, v_THD, offsets_B1, lambda i, j: abs(i - j) <= window)


def activate(x: Tensor, activation: str) -> Tensor:
    """The activation by its formula."""
    if activation == "gelu":
        return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3)))
    if activation == "silu":
        return x / (1.0 + torch.exp(-x))
    positive = torch.where(x > 0, x, torch.zeros_like(x))
    return positive if activation == "relu" else positive**2


def gdpa(
    q_THD: Tensor,
    k_THD: Tensor,
    v_THD: Tensor,
    q_offsets_B1: Tensor,
    kv_offsets_B1: Tensor,
    *,
    activation: str,
    scale: float,
) -> Tensor:
    """scale * sum_j act(q . k_j) v_j, one query, head and key after the other."""
    out = torch.zeros_like(q_THD)
    q_bounds, kv_bounds = q_offsets_B1.tolist(), kv_offsets_B1.tolist()
    for row in range(len(q_bounds) - 1):
        for query in range(q_bounds[row], q_bounds[row + 1]):
            for head in range(q_THD.shape[1]):
                for key in range(kv_bounds[row], kv_bounds[row + 1]):
                    weight = activate(q_THD[query, head] @ k_THD[key, head], activation) * scale
                    out[query, head] += weight * v_THD[key, head]
    return out


def seed_attention(seed_PHD: Tensor, k_THD: Tensor, v_THD: Tensor, offsets_B1: Tensor) -> Tensor:
    """Every seed attends over a row; zeros where the row is empty."""
    out = []
    for k, v in zip(rows_of(k_THD, offsets_B1), rows_of(v_THD, offsets_B1), strict=True):
        pooled = torch.zeros_like(seed_PHD)
        for seed in range(seed_PHD.shape[0] if k.shape[0] else 0):
            for head in range(seed_PHD.shape[1]):
                weights = torch.exp(k[:, head] @ seed_PHD[seed, head] / math.sqrt(seed_PHD.shape[2]))
                pooled[seed, head] = (weights / weights.sum()) @ v[:, head]
        out.append(pooled)
    return torch.stack(out)


def sum_kron(h_BPE: Tensor, mix_RPQ: Tensor, weight_REE: Tensor) -> Tensor:
    """sum_r Z_r^T H W_r, example by example, through the full Kronecker product of the flattened H."""
    matrix = sum(
        torch.kron(mix.T.contiguous(), weight.T.contiguous()) for mix, weight in zip(mix_RPQ, weight_REE, strict=True)
    )
    flat = torch.stack([matrix @ h.reshape(-1) for h in h_BPE])
    return flat.reshape(h_BPE.shape[0], mix_RPQ.shape[2], weight_REE.shape[2])


def log_time_rotation(x_HD: Tensor, position: int, gap_s: float, time_scale_s: float) -> Tensor:
    """Rotate each pair by position * theta + log(1 + gap / scale) * omega, omega geometric from 4 to 0.1."""
    head_dim = x_HD.shape[1]
    pairs = head_dim // 2
    out = torch.zeros_like(x_HD)
    for pair in range(pairs):
        omega = 4.0 * (0.1 / 4.0) ** (pair / max(1, pairs - 1))
        angle = position * 10_000.0 ** (-2.0 * pair / head_dim) + math.log(1.0 + gap_s / time_scale_s) * omega
        first, second = x_HD[:, 2 * pair], x_HD[:, 2 * pair + 1]
        out[:, 2 * pair] = math.cos(angle) * first - math.sin(angle) * second
        out[:, 2 * pair + 1] = math.sin(angle) * first + math.cos(angle) * second
    return out
