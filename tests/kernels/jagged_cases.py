"""Jagged inputs and the three promises every jagged operator keeps, for the tests of kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from gem_pipeline.kernels.jagged import lengths_to_offsets
from tests.oracles.attention import rows_of

HEADS, WIDTH = 2, 4
TIGHT = {"rtol": 0.0, "atol": 1e-10}
Operator = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


def offsets(lengths: Sequence[int]) -> Tensor:
    return lengths_to_offsets(torch.tensor(lengths, dtype=torch.int64))


def draw(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def triple(lengths: Sequence[int], seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values of rows of the given lengths, [T, H, D] each."""
    q, k, v = (draw(sum(lengths), HEADS, WIDTH, seed=3 * seed + part) for part in range(3))
    return q, k, v


def in_new_order(x: Tensor, lengths: Sequence[int], order: Sequence[int]) -> Tensor:
    rows = rows_of(x, offsets(lengths))
    return torch.cat([rows[row] for row in order]) if len(order) else x[:0]


def gap_to_batch_of(operator: Operator, lengths: Sequence[int], order: Sequence[int], seed: int = 0) -> float:
    """Largest difference between rows computed in one batch and the same rows in another batch and order."""
    inputs = triple(lengths, seed)
    together = in_new_order(operator(*inputs, offsets(lengths)), lengths, order)
    picked = [lengths[row] for row in order]
    moved = operator(*(in_new_order(x, lengths, order) for x in inputs), offsets(picked))
    return float((moved - together).abs().max()) if moved.numel() else 0.0
