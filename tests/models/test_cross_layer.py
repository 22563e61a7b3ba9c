"""Attention to earlier layers equals its equation."""

from __future__ import annotations

import torch

from gem_pipeline.models.cross_layer import CrossLayerAttention
from tests.oracles import sequence_blocks as oracle


def test_tokens_attend_to_everything_that_was_stored() -> None:
    layer = CrossLayerAttention(8, 2).double()
    x_BND, first, second = (torch.randn(3, size, 8, dtype=torch.float64) for size in (5, 2, 4))
    stored = torch.cat([first, second], dim=1)
    expected = torch.stack([oracle.cross_layer(x, s, layer) for x, s in zip(x_BND, stored, strict=True)])
    torch.testing.assert_close(layer(x_BND, [first, second]), expected, rtol=0, atol=1e-10)
