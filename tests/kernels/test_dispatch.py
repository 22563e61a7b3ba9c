"""Plain operators are used wherever a fused kernel cannot run, and Triton is not even imported there."""

from __future__ import annotations

import subprocess
import sys

import torch

from gem_pipeline.kernels.dispatch import fused


def test_a_tensor_in_main_memory_uses_the_plain_operators() -> None:
    assert fused("block", torch.zeros(1)) is None


def test_operators_run_where_triton_is_missing_and_never_import_it_for_the_cpu() -> None:
    program = (
        "import sys, torch\n"
        "sys.modules['triton'] = None\n"
        "from gem_pipeline.kernels import pointwise, pooling, windowed\n"
        "x, o = torch.ones(3, 1, 2), torch.tensor([0, 3])\n"
        "windowed.jagged_block_attention(x, x, x, o, block=2)\n"
        "pointwise.gdpa(x, x, x, o, o, activation='gelu', scale=1.0)\n"
        "pooling.jagged_seed_attention(x, x, x, o)\n"
        "assert not [name for name in sys.modules if name.startswith('gem_pipeline.kernels.triton')]\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)
