"""Fused kernels against the plain operators in Triton's interpreter: `TRITON_INTERPRET=1 python -m ... NAME`.

Triton decides at its import whether it interprets, so each parity test is a process of its own.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from importlib.util import find_spec

import pytest
import torch
from torch import Tensor

from gem_pipeline.kernels.pointwise import ACTIVATIONS, gdpa
from gem_pipeline.kernels.pooling import jagged_seed_attention
from gem_pipeline.kernels.windowed import block_offsets, jagged_block_attention
from tests.kernels.jagged_cases import draw, offsets
from tests.style.sources import ROOT

HEADS = 2


def check_interpreted(name: str) -> None:
    """Run one of the checks below with Triton's interpreter.

    Raises:
        AssertionError: it failed; with what it printed.
    """
    if find_spec("triton") is None:
        pytest.skip("Triton is not installed here")
    answer = subprocess.run(
        [sys.executable, "-m", "tests.kernels.triton_parity", name],
        env=os.environ | {"TRITON_INTERPRET": "1"}, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert answer.returncode == 0, answer.stderr


def agree(plain: Tensor, fused: Tensor, leaves: Sequence[Tensor]) -> None:
    weight = draw(*plain.shape, seed=9).float()
    torch.testing.assert_close(fused, plain, rtol=1e-4, atol=1e-4)
    expected = torch.autograd.grad((plain * weight).sum(), leaves)
    found = torch.autograd.grad((fused * weight).sum(), leaves)
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-3)


def leaves_of(sizes: Sequence[int], width: int = 8) -> list[Tensor]:
    return [draw(size, HEADS, width, seed=seed).float().requires_grad_() for seed, size in enumerate(sizes)]


def block() -> None:
    from gem_pipeline.kernels import triton_block

    for lengths, size, width in (([5, 0, 40, 1], 16, 8), ([70, 3], 64, 20), ([0], 16, 8)):
        bounds, leaves = offsets(lengths), leaves_of([sum(lengths)] * 3, width)
        fused = triton_block.block_attention(*leaves, block_offsets(bounds, size), block=size)
        agree(jagged_block_attention(*leaves, bounds, block=size), fused, leaves)


def pointwise() -> None:
    from gem_pipeline.kernels import triton_gdpa

    for pairs in ([(5, 3), (0, 4), (70, 2), (2, 0), (1, 90)], [(0, 0)]):
        bounds = [offsets([pair[side] for pair in pairs]) for side in range(2)]
        leaves = leaves_of([int(bounds[side][-1]) for side in (0, 1, 1)])
        for activation in sorted(ACTIVATIONS):
            fused = triton_gdpa.gdpa(*leaves, *bounds, activation=activation, scale=0.3)
            agree(gdpa(*leaves, *bounds, activation=activation, scale=0.3), fused, leaves)


def seeds() -> None:
    from gem_pipeline.kernels import triton_seed

    for lengths, num_seeds in (([5, 0, 130, 1], 3), ([64, 7], 70), ([0, 0], 2)):
        bounds, leaves = offsets(lengths), leaves_of([num_seeds, sum(lengths), sum(lengths)])
        agree(jagged_seed_attention(*leaves, bounds), triton_seed.seed_attention(*leaves, bounds), leaves)


def tiles() -> None:
    from gem_pipeline.kernels import triton_tiles

    bounds, row = triton_tiles.row_tiles(offsets([0, 70, 0, 3]))
    assert bounds.tolist() == [0, 6, 70, 73]
    assert row.tolist() == [1, 1, 3]
    assert [triton_tiles.padded(size) for size in (1, 16, 17, 64, 100)] == [16, 16, 32, 64, 128]


CHECKS: dict[str, Callable[[], None]] = {"block": block, "gdpa": pointwise, "seed": seeds, "tiles": tiles}

if __name__ == "__main__":
    CHECKS[sys.argv[1]]()
