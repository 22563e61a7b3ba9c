"""Streams of one root seed are repeatable and apart from each other."""

from __future__ import annotations

import torch

from gem_pipeline.training.seeding import derive_seed, numpy_generator, seed_torch


def test_a_purpose_has_one_stream_and_other_purposes_have_others():
    assert derive_seed(0, "a", "b") == derive_seed(0, "a", "b")
    assert (
        len({derive_seed(0, "a", "b"), derive_seed(0, "ab"), derive_seed(1, "a", "b"), derive_seed(0, "b", "a")}) == 4
    )
    assert derive_seed(0, "a") < 2**63


def test_numpy_and_torch_streams_repeat():
    assert numpy_generator(3, "x").random() == numpy_generator(3, "x").random()
    seed_torch(3, "x")
    first = torch.rand(2)
    seed_torch(3, "x")
    assert torch.equal(first, torch.rand(2))
