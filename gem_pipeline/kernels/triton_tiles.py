"""What the fused kernels share: tiles of jagged tensors, activations with their slopes, and the cut of rows into tiles.

Tensors are contiguous [T, H, D]; a tile is some elements of one head, [N, D], with zeros where there is no element.
Products run in the type of the tensors and add up in float32. Ours.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from gem_pipeline.kernels.windowed import block_offsets

TILE = 64
SMALLEST = 16  # sides of a matrix product are at least so long
CODES = {"gelu": 0, "silu": 1, "relu": 2, "squared_relu": 3}


def padded(size: int) -> int:
    """Length of a tile's side that holds `size`: a power of two, at least 16."""
    return max(SMALLEST, 1 << (size - 1).bit_length())


def launch(kernel: Any, grid: tuple[int, ...], sizes: dict[str, int], *given: Any) -> None:
    """Run a kernel over a grid of programs, sizes being known when it is compiled."""
    kernel[grid](*given, **sizes)


def row_tiles(offsets_B1: Tensor) -> tuple[Tensor, Tensor]:
    """Cut rows into tiles of at most 64 elements: bounds int64 [S + 1] and the row of each tile int64 [S]."""
    tile_S1 = block_offsets(offsets_B1, TILE)
    return tile_S1, torch.searchsorted(offsets_B1, tile_S1[:-1], right=True) - 1


@triton.jit
def load_tile(
    pointer, place, inside, head,
    HEADS: tl.constexpr, WIDTH: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Elements `place` [N] of one head -> [N, COLUMNS], zeros where `inside` is false."""
    column = tl.arange(0, COLUMNS)
    address = (place[:, None] * HEADS + head) * WIDTH + column[None, :]
    return tl.load(pointer + address, mask=inside[:, None] & (column < WIDTH)[None, :], other=0.0)


@triton.jit
def store_tile(
    pointer, value, place, inside, head,
    HEADS: tl.constexpr, WIDTH: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """The reverse of `load_tile`."""
    column = tl.arange(0, COLUMNS)
    address = (place[:, None] * HEADS + head) * WIDTH + column[None, :]
    kept = value.to(pointer.dtype.element_ty)
    tl.store(pointer + address, kept, mask=inside[:, None] & (column < WIDTH)[None, :])


@triton.jit
def product(a, b):
    """Matrix product [N, D] x [D, M] in the type of b, added up in float32; float32 by three products of TF32."""
    return tl.dot(a.to(b.dtype), b, input_precision="tf32x3")


@triton.jit
def activate(x, CODE: tl.constexpr):
    """The activation of a code."""
    if CODE == 0:  # gelu by tanh; 0.5 (1 + tanh(z)) = sigmoid(2 z)
        return x * tl.sigmoid(1.5957691216057308 * (x + 0.044715 * x * x * x))
    if CODE == 1:
        return x * tl.sigmoid(x)
    positive = tl.maximum(x, 0.0)
    return positive if CODE == 2 else positive * positive


@triton.jit
def slope(x, CODE: tl.constexpr):
    """The derivative of the activation of a code."""
    if CODE == 0:
        gate = tl.sigmoid(1.5957691216057308 * (x + 0.044715 * x * x * x))
        return gate + x * gate * (1.0 - gate) * 1.5957691216057308 * (1.0 + 0.134145 * x * x)
    if CODE == 1:
        gate = tl.sigmoid(x)
        return gate + x * gate * (1.0 - gate)
    if CODE == 2:
        return tl.where(x > 0.0, 1.0, 0.0)
    return 2.0 * tl.maximum(x, 0.0)
