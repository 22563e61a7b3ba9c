"""GDPA as fused kernels: a program reads one tile of queries (or keys) and walks over the other side of its row.

Legend: Tq / Tk query / key elements, H heads, D head width. The equation stands in `pointwise.py`; the kernels are ours
and need stock Triton only (the official ones need Blackwell, or a fork of Triton). No sum is made by atomics, so
gradients are repeatable.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from gem_pipeline.kernels.pointwise import Activation
from gem_pipeline.kernels.triton_tiles import (
    CODES,
    TILE,
    activate,
    launch,
    load_tile,
    padded,
    product,
    row_tiles,
    slope,
    store_tile,
)


@triton.jit
def _forward(
    Q, K, V, OUT, TILES, ROW, KV, scale,
    HEADS: tl.constexpr, WIDTH: tl.constexpr, COLUMNS: tl.constexpr, SIDE: tl.constexpr, CODE: tl.constexpr,
):  # fmt: skip
    """One tile of queries and one head of the output."""
    head, row = tl.program_id(1), tl.load(ROW + tl.program_id(0))
    place = tl.load(TILES + tl.program_id(0)) + tl.arange(0, SIDE)
    inside = place < tl.load(TILES + tl.program_id(0) + 1)
    q = load_tile(Q, place, inside, head, HEADS, WIDTH, COLUMNS)
    last = tl.load(KV + row + 1)
    out = tl.zeros([SIDE, COLUMNS], dtype=tl.float32)
    for first in range(tl.load(KV + row), last, SIDE):
        key_place = first + tl.arange(0, SIDE)
        k = load_tile(K, key_place, key_place < last, head, HEADS, WIDTH, COLUMNS)
        v = load_tile(V, key_place, key_place < last, head, HEADS, WIDTH, COLUMNS)
        out += product(activate(product(q, tl.trans(k)), CODE), v)
    store_tile(OUT, out * scale, place, inside, head, HEADS, WIDTH, COLUMNS)


@triton.jit
def _backward_query(
    Q, K, V, GRAD, DQ, TILES, ROW, KV, scale,
    HEADS: tl.constexpr, WIDTH: tl.constexpr, COLUMNS: tl.constexpr, SIDE: tl.constexpr, CODE: tl.constexpr,
):  # fmt: skip
    """One tile of queries and one head of their gradient."""
    head, row = tl.program_id(1), tl.load(ROW + tl.program_id(0))
    place = tl.load(TILES + tl.program_id(0)) + tl.arange(0, SIDE)
    inside = place < tl.load(TILES + tl.program_id(0) + 1)
    q = load_tile(Q, place, inside, head, HEADS, WIDTH, COLUMNS)
    grad = load_tile(GRAD, place, inside, head, HEADS, WIDTH, COLUMNS)
    last = tl.load(KV + row + 1)
    made = tl.zeros([SIDE, COLUMNS], dtype=tl.float32)
    for first in range(tl.load(KV + row), last, SIDE):
        key_place = first + tl.arange(0, SIDE)
        k = load_tile(K, key_place, key_place < last, head, HEADS, WIDTH, COLUMNS)
        v = load_tile(V, key_place, key_place < last, head, HEADS, WIDTH, COLUMNS)
        score_grad = product(grad, tl.trans(v)) * slope(product(q, tl.trans(k)), CODE)
        made += product(score_grad, k)
    store_tile(DQ, made * scale, place, inside, head, HEADS, WIDTH, COLUMNS)


@triton.jit
def _backward_key(
    Q, K, V, GRAD, DK, DV, TILES, ROW, QUERIES, scale,
    HEADS: tl.constexpr, WIDTH: tl.constexpr, COLUMNS: tl.constexpr, SIDE: tl.constexpr, CODE: tl.constexpr,
):  # fmt: skip
    """One tile of keys and one head of the gradients of keys and values."""
    head, row = tl.program_id(1), tl.load(ROW + tl.program_id(0))
    place = tl.load(TILES + tl.program_id(0)) + tl.arange(0, SIDE)
    inside = place < tl.load(TILES + tl.program_id(0) + 1)
    k = load_tile(K, place, inside, head, HEADS, WIDTH, COLUMNS)
    v = load_tile(V, place, inside, head, HEADS, WIDTH, COLUMNS)
    last = tl.load(QUERIES + row + 1)
    key_made = tl.zeros([SIDE, COLUMNS], dtype=tl.float32)
    value_made = tl.zeros([SIDE, COLUMNS], dtype=tl.float32)
    for first in range(tl.load(QUERIES + row), last, SIDE):
        query_place = first + tl.arange(0, SIDE)
        q = load_tile(Q, query_place, query_place < last, head, HEADS, WIDTH, COLUMNS)
        grad = load_tile(GRAD, query_place, query_place < last, head, HEADS, WIDTH, COLUMNS)
        score = product(k, tl.trans(q))
        value_made += product(activate(score, CODE), grad)
        key_made += product(product(v, tl.trans(grad)) * slope(score, CODE), q)
    store_tile(DK, key_made * scale, place, inside, head, HEADS, WIDTH, COLUMNS)
    store_tile(DV, value_made * scale, place, inside, head, HEADS, WIDTH, COLUMNS)


class _Gdpa(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> Tensor:
        """Queries [Tq, H, D], k, v [Tk, H, D], both offsets [B + 1], code and scale -> [Tq, H, D]."""
        q_THD, k_THD, v_THD, q_offsets_B1, kv_offsets_B1, code, scale = inputs
        ctx.save_for_backward(*inputs[:5])
        _, heads, width = q_THD.shape
        ctx.scale = scale
        ctx.sizes = {"HEADS": heads, "WIDTH": width, "COLUMNS": padded(width), "SIDE": TILE, "CODE": code}
        tiles, row = row_tiles(q_offsets_B1)
        out_THD = torch.zeros_like(q_THD)
        if row.shape[0]:
            grid = (row.shape[0], heads)
            launch(_forward, grid, ctx.sizes, q_THD, k_THD, v_THD, out_THD, tiles, row, kv_offsets_B1, scale)
        return out_THD

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        """Gradient [Tq, H, D] -> gradients of q, k and v."""
        q_THD, k_THD, v_THD, q_offsets_B1, kv_offsets_B1 = ctx.saved_tensors
        given = (q_THD, k_THD, v_THD, grads[0].contiguous())
        dq, dk, dv = (torch.zeros_like(x) for x in given[:3])
        tiles, row = row_tiles(q_offsets_B1)
        if row.shape[0]:
            grid = (row.shape[0], q_THD.shape[1])
            launch(_backward_query, grid, ctx.sizes, *given, dq, tiles, row, kv_offsets_B1, ctx.scale)
        tiles, row = row_tiles(kv_offsets_B1)
        if row.shape[0]:
            grid = (row.shape[0], q_THD.shape[1])
            launch(_backward_key, grid, ctx.sizes, *given, dk, dv, tiles, row, q_offsets_B1, ctx.scale)
        return dq, dk, dv, None, None, None, None


def gdpa(
    q_THD: Tensor,
    k_THD: Tensor,
    v_THD: Tensor,
    q_offsets_B1: Tensor,
    kv_offsets_B1: Tensor,
    *,
    activation: Activation,
    scale: float,
) -> Tensor:
    """`gdpa` of pointwise.py: queries [Tq, H, D], keys and values [Tk, H, D], offsets [B + 1] -> [Tq, H, D]."""
    tensors = (x.contiguous() for x in (q_THD, k_THD, v_THD))
    return _Gdpa.apply(*tensors, q_offsets_B1, kv_offsets_B1, CODES[activation], scale)
