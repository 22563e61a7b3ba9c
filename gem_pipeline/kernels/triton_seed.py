"""Attention of shared seeds over jagged rows as fused kernels, with a running softmax.

Legend: B rows, T elements, P seeds, H heads, D head width. The equation stands in `pooling.py`; the kernels are ours,
after FlashAttention (Dao et al., arXiv 2205.14135). The gradient of the seeds is made row by row and then added up, so
it is repeatable.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from gem_pipeline.kernels.triton_tiles import TILE, launch, load_tile, padded, product, row_tiles, store_tile


@triton.jit
def _forward(
    SEED, K, V, OUT, LOG, ROWS, num_seeds, scale,
    HEADS: tl.constexpr, WIDTH: tl.constexpr, COLUMNS: tl.constexpr, SIDE: tl.constexpr,
):  # fmt: skip
    """One tile of seeds, one row and one head of the output, and the logarithm of the softmax's sum."""
    row, head = tl.program_id(0).to(tl.int64), tl.program_id(1)
    seed_place = tl.program_id(2) * SIDE + tl.arange(0, SIDE)
    real = seed_place < num_seeds
    seed = load_tile(SEED, seed_place, real, head, HEADS, WIDTH, COLUMNS)
    last = tl.load(ROWS + row + 1)
    out = tl.zeros([SIDE, COLUMNS], dtype=tl.float32)
    top = tl.full([SIDE], -1e30, dtype=tl.float32)
    total = tl.zeros([SIDE], dtype=tl.float32)
    for first in range(tl.load(ROWS + row), last, SIDE):
        place = first + tl.arange(0, SIDE)
        inside = place < last
        k = load_tile(K, place, inside, head, HEADS, WIDTH, COLUMNS)
        v = load_tile(V, place, inside, head, HEADS, WIDTH, COLUMNS)
        score = tl.where(inside[None, :], product(seed, tl.trans(k)) * scale, float("-inf"))
        higher = tl.maximum(top, tl.max(score, 1))
        weight = tl.exp(score - higher[:, None])
        shrink = tl.exp(top - higher)
        total = total * shrink + tl.sum(weight, 1)
        out = out * shrink[:, None] + product(weight, v)
        top = higher
    out_place = row * num_seeds + seed_place
    out = out / tl.where(total > 0.0, total, 1.0)[:, None]
    store_tile(OUT, out, out_place, real, head, HEADS, WIDTH, COLUMNS)
    tl.store(LOG + out_place * HEADS + head, top + tl.log(tl.where(total > 0.0, total, 1.0)), mask=real)


@triton.jit
def _backward_key(
    SEED, K, V, GRAD, LOG, DELTA, DK, DV, TILES, ROW,
    num_seeds, scale,
    HEADS: tl.constexpr, WIDTH: tl.constexpr, COLUMNS: tl.constexpr, SIDE: tl.constexpr,
):  # fmt: skip
    """One tile of elements and one head of the gradients of keys and values."""
    head, row = tl.program_id(1), tl.load(ROW + tl.program_id(0))
    place = tl.load(TILES + tl.program_id(0)) + tl.arange(0, SIDE)
    inside = place < tl.load(TILES + tl.program_id(0) + 1)
    k = load_tile(K, place, inside, head, HEADS, WIDTH, COLUMNS)
    v = load_tile(V, place, inside, head, HEADS, WIDTH, COLUMNS)
    key_made = tl.zeros([SIDE, COLUMNS], dtype=tl.float32)
    value_made = tl.zeros([SIDE, COLUMNS], dtype=tl.float32)
    for first in range(0, num_seeds, SIDE):
        seed_place = first + tl.arange(0, SIDE)
        real = seed_place < num_seeds
        seed = load_tile(SEED, seed_place, real, head, HEADS, WIDTH, COLUMNS)
        out_place = row * num_seeds + seed_place
        grad = load_tile(GRAD, out_place, real, head, HEADS, WIDTH, COLUMNS)
        log = tl.load(LOG + out_place * HEADS + head, mask=real, other=0.0)
        delta = tl.load(DELTA + out_place * HEADS + head, mask=real, other=0.0)
        weight = tl.exp(product(k, tl.trans(seed)) * scale - log[None, :])
        weight = tl.where(real[None, :], weight, 0.0)
        value_made += product(weight, grad)
        key_made += product(weight * (product(v, tl.trans(grad)) - delta[None, :]) * scale, seed)
    store_tile(DK, key_made, place, inside, head, HEADS, WIDTH, COLUMNS)
    store_tile(DV, value_made, place, inside, head, HEADS, WIDTH, COLUMNS)


@triton.jit
def _backward_seed(
    SEED, K, V, GRAD, LOG, DELTA, DSEED, ROWS, num_seeds, scale,
    HEADS: tl.constexpr, WIDTH: tl.constexpr, COLUMNS: tl.constexpr, SIDE: tl.constexpr,
):  # fmt: skip
    """One tile of seeds, one row and one head of the seeds' gradient."""
    row, head = tl.program_id(0).to(tl.int64), tl.program_id(1)
    seed_place = tl.program_id(2) * SIDE + tl.arange(0, SIDE)
    real = seed_place < num_seeds
    out_place = row * num_seeds + seed_place
    seed = load_tile(SEED, seed_place, real, head, HEADS, WIDTH, COLUMNS)
    grad = load_tile(GRAD, out_place, real, head, HEADS, WIDTH, COLUMNS)
    log = tl.load(LOG + out_place * HEADS + head, mask=real, other=0.0)
    delta = tl.load(DELTA + out_place * HEADS + head, mask=real, other=0.0)
    last = tl.load(ROWS + row + 1)
    made = tl.zeros([SIDE, COLUMNS], dtype=tl.float32)
    for first in range(tl.load(ROWS + row), last, SIDE):
        place = first + tl.arange(0, SIDE)
        inside = place < last
        k = load_tile(K, place, inside, head, HEADS, WIDTH, COLUMNS)
        v = load_tile(V, place, inside, head, HEADS, WIDTH, COLUMNS)
        weight = tl.exp(product(seed, tl.trans(k)) * scale - log[:, None])
        weight = tl.where(inside[None, :], weight, 0.0)
        made += product(weight * (product(grad, tl.trans(v)) - delta[:, None]) * scale, k)
    store_tile(DSEED, made, out_place, real, head, HEADS, WIDTH, COLUMNS)


class _SeedAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> Tensor:
        """Seeds [P, H, D], k, v [T, H, D] and offsets [B + 1] -> [B, P, H, D]."""
        seed_PHD, k_THD, _, offsets_B1 = inputs
        num_seeds, heads, width = seed_PHD.shape
        num_rows = offsets_B1.shape[0] - 1
        ctx.sizes = {"HEADS": heads, "WIDTH": width, "COLUMNS": padded(width), "SIDE": TILE}
        ctx.grid = (num_rows, heads, -(-num_seeds // TILE))
        out_BPHD = k_THD.new_zeros(num_rows, num_seeds, heads, width)
        log_BPH = k_THD.new_zeros(num_rows, num_seeds, heads, dtype=torch.float32)
        if num_rows:
            launch(_forward, ctx.grid, ctx.sizes, *inputs[:3], out_BPHD, log_BPH, offsets_B1, num_seeds, width**-0.5)
        ctx.save_for_backward(*inputs, out_BPHD, log_BPH)
        return out_BPHD

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        """Gradient [B, P, H, D] -> gradients of seeds, k and v."""
        seed_PHD, k_THD, v_THD, offsets_B1, out_BPHD, log_BPH = ctx.saved_tensors
        num_seeds, scale = seed_PHD.shape[0], seed_PHD.shape[2] ** -0.5
        grad_BPHD = grads[0].contiguous()
        delta_BPH = (grad_BPHD.float() * out_BPHD.float()).sum(dim=3).contiguous()
        given = (seed_PHD, k_THD, v_THD, grad_BPHD, log_BPH, delta_BPH)
        dk, dv = torch.zeros_like(k_THD), torch.zeros_like(v_THD)
        tiles, row = row_tiles(offsets_B1)
        if row.shape[0]:
            launch(
                _backward_key,
                (row.shape[0], seed_PHD.shape[1]),
                ctx.sizes,
                *given,
                dk,
                dv,
                tiles,
                row,
                num_seeds,
                scale,
            )
        made_BPHD = torch.zeros_like(out_BPHD, dtype=torch.float32)
        if made_BPHD.shape[0]:
            launch(_backward_seed, ctx.grid, ctx.sizes, *given, made_BPHD, offsets_B1, num_seeds, scale)
        return made_BPHD.sum(dim=0).to(seed_PHD.dtype), dk, dv, None


def seed_attention(seed_PHD: Tensor, k_THD: Tensor, v_THD: Tensor, offsets_B1: Tensor) -> Tensor:
    """`jagged_seed_attention` of pooling.py: seeds [P, H, D], keys and values [T, H, D] -> [B, P, H, D]."""
    return _SeedAttention.apply(seed_PHD.contiguous(), k_THD.contiguous(), v_THD.contiguous(), offsets_B1)
