"""Block attention as one fused kernel: a program computes one block of one head, softmax included.

Legend: T elements, H heads, D head width, S blocks. The equation stands in `windowed.py`; the kernel is ours, after the
idea of Kunlun's (a block fits into registers, so nothing is kept for the backward pass but the inputs).
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from gem_pipeline.kernels.triton_tiles import launch, load_tile, padded, product, store_tile


@triton.jit
def _weights(q, k, inside, scale):
    """Softmax of a whole block, float32 [N, N]."""
    score = tl.where(inside[None, :], product(q, tl.trans(k)) * scale, float("-inf"))
    weight = tl.exp(score - tl.max(score, 1)[:, None])
    return weight / tl.sum(weight, 1)[:, None]


@triton.jit
def _forward(
    Q, K, V, OUT, BOUNDS, scale,
    HEADS: tl.constexpr, WIDTH: tl.constexpr, COLUMNS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """One block and head of the output."""
    head = tl.program_id(1)
    place = tl.load(BOUNDS + tl.program_id(0)) + tl.arange(0, BLOCK)
    inside = place < tl.load(BOUNDS + tl.program_id(0) + 1)
    q = load_tile(Q, place, inside, head, HEADS, WIDTH, COLUMNS)
    k = load_tile(K, place, inside, head, HEADS, WIDTH, COLUMNS)
    v = load_tile(V, place, inside, head, HEADS, WIDTH, COLUMNS)
    store_tile(OUT, product(_weights(q, k, inside, scale), v), place, inside, head, HEADS, WIDTH, COLUMNS)


@triton.jit
def _backward(
    Q, K, V, GRAD, DQ, DK, DV, BOUNDS, scale,
    HEADS: tl.constexpr, WIDTH: tl.constexpr, COLUMNS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """One block and head of the three gradients."""
    head = tl.program_id(1)
    place = tl.load(BOUNDS + tl.program_id(0)) + tl.arange(0, BLOCK)
    inside = place < tl.load(BOUNDS + tl.program_id(0) + 1)
    q = load_tile(Q, place, inside, head, HEADS, WIDTH, COLUMNS)
    k = load_tile(K, place, inside, head, HEADS, WIDTH, COLUMNS)
    v = load_tile(V, place, inside, head, HEADS, WIDTH, COLUMNS)
    grad = load_tile(GRAD, place, inside, head, HEADS, WIDTH, COLUMNS)
    weight = _weights(q, k, inside, scale)
    told = product(grad, tl.trans(v))
    score_grad = weight * (told - tl.sum(weight * told, 1)[:, None]) * scale
    store_tile(DV, product(tl.trans(weight), grad), place, inside, head, HEADS, WIDTH, COLUMNS)
    store_tile(DQ, product(score_grad, k), place, inside, head, HEADS, WIDTH, COLUMNS)
    store_tile(DK, product(tl.trans(score_grad), q), place, inside, head, HEADS, WIDTH, COLUMNS)


class _BlockAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> Tensor:
        """Queries, keys, values [T, H, D], bounds of the blocks [S + 1] and their largest length -> [T, H, D]."""
        q_THD, k_THD, v_THD, inner_S1, block = inputs
        ctx.save_for_backward(q_THD, k_THD, v_THD, inner_S1)
        _, heads, width = q_THD.shape
        ctx.sizes = {"HEADS": heads, "WIDTH": width, "COLUMNS": padded(width), "BLOCK": padded(block)}
        out_THD = torch.zeros_like(q_THD)
        if inner_S1.shape[0] > 1:
            grid = (inner_S1.shape[0] - 1, heads)
            launch(_forward, grid, ctx.sizes, q_THD, k_THD, v_THD, out_THD, inner_S1, width**-0.5)
        return out_THD

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        """Gradient [T, H, D] -> gradients of q, k and v."""
        q_THD, k_THD, v_THD, inner_S1 = ctx.saved_tensors
        given = (q_THD, k_THD, v_THD, grads[0].contiguous())
        made = tuple(torch.zeros_like(x) for x in given[:3])
        if inner_S1.shape[0] > 1:
            grid = (inner_S1.shape[0] - 1, q_THD.shape[1])
            launch(_backward, grid, ctx.sizes, *given, *made, inner_S1, q_THD.shape[2] ** -0.5)
        return *made, None, None


def block_attention(q_THD: Tensor, k_THD: Tensor, v_THD: Tensor, inner_S1: Tensor, *, block: int) -> Tensor:
    """`jagged_block_attention` over blocks that are already cut.

    Args:
        q_THD: queries, [T, H, D].
        k_THD: keys, [T, H, D].
        v_THD: values, [T, H, D].
        inner_S1: bounds of the blocks of all rows, int64 [S + 1].
        block: longest block, at most 64.

    Returns:
        [T, H, D].
    """
    return _BlockAttention.apply(q_THD.contiguous(), k_THD.contiguous(), v_THD.contiguous(), inner_S1, block)
