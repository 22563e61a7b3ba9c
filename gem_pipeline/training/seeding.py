"""One root seed; every use of randomness gets a stream of its own."""

from __future__ import annotations

import hashlib

import numpy as np
import torch


def derive_seed(root: int, *purpose: str) -> int:
    """Seed of one use, for example `derive_seed(0, "2022-05-03", "gem", "shuffle")`; 63 bits."""
    digest = hashlib.sha256("\0".join((str(root), *purpose)).encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def numpy_generator(root: int, *purpose: str) -> np.random.Generator:
    """A numpy stream of its own."""
    return np.random.default_rng(derive_seed(root, *purpose))


def seed_torch(root: int, *purpose: str) -> None:
    """Start torch's global stream (initialisation, dropout) for one use."""
    torch.manual_seed(derive_seed(root, *purpose))
