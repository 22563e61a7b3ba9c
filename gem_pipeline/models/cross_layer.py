"""Attention of a layer to the stored summaries of earlier layers.

Legend: B rows, N tokens, K stored tokens, H heads, D width.
Source: "cross-layer attention connections" in Wukong are named in Meta's description of GEM, without an equation; to
store each layer's summaries and attend to them follows Lattice's extended context storage, arXiv 2512.09200. The
form is ours.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention


class CrossLayerAttention(nn.Module):
    """X + W_o MHA(LN(X), LN(stored), LN(stored)): [B, N, D], [B, K, D] -> [B, N, D]."""

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm, self.stored_norm = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.query = nn.Linear(dim, dim, bias=False)
        self.key_value = nn.Linear(dim, 2 * dim, bias=False)
        self.out = nn.Linear(dim, dim, bias=False)

    def forward(self, x_BND: Tensor, stored: list[Tensor]) -> Tensor:
        """Tokens [B, N, D] and summaries of earlier layers, each [B, K, D] -> [B, N, D]."""
        stored_BKD = self.stored_norm(torch.cat(stored, dim=1))
        key_BHKD, value_BHKD = (self._heads(x) for x in self.key_value(stored_BKD).chunk(2, dim=2))
        query_BHND = self._heads(self.query(self.norm(x_BND)))
        read_BHND = scaled_dot_product_attention(query_BHND, key_BHKD, value_BHKD)
        return x_BND + self.out(read_BHND.transpose(1, 2).flatten(2))

    def _heads(self, x_BND: Tensor) -> Tensor:
        return x_BND.unflatten(2, (self.heads, -1)).transpose(1, 2)
