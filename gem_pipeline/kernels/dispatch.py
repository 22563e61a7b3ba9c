"""Choice between the plain PyTorch operators and the fused ones, by where the tensors lie (ours)."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

import torch
from torch import Tensor

FUSED_TYPES = (torch.float32, torch.bfloat16, torch.float16)


def fused(name: str, x: Tensor) -> ModuleType | None:
    """The module of a fused kernel where a tensor can use it, else None: Triton is never imported in vain.

    A CUDA tensor of at most 32 bits uses it, where Triton is installed; float64 stays with the plain operators, since
    fused kernels add up in float32.
    """
    if not x.is_cuda or x.dtype not in FUSED_TYPES or find_spec("triton") is None:
        return None
    return import_module(f"gem_pipeline.kernels.triton_{name}")
