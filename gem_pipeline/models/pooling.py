"""Hierarchical seed pooling: many seeds read the sequence, a sum of Kronecker products shrinks them to few tokens.

Legend: B rows, T elements of the whole batch, P seeds, Q tokens, R rank, H heads, D width.
Source: HSP and SumKronLinear of Kunlun, arXiv 2602.10016.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from gem_pipeline.errors import ConfigError
from gem_pipeline.kernels.pooling import hierarchical_seed_pool


@dataclass(frozen=True, kw_only=True, slots=True)
class SeedPoolingConfig:
    """Shape of a pooling.

    Attributes:
        seeds: P, learned queries, more than tokens.
        tokens: Q, tokens out.
        rank: R, terms of the Kronecker sum.
    """

    seeds: int = 16
    tokens: int = 4
    rank: int = 4

    def __post_init__(self) -> None:
        if min(self.tokens, self.rank) < 1 or self.seeds <= self.tokens:
            raise ConfigError(
                f"Seed pooling cannot shrink {self.seeds} seeds to {self.tokens} tokens with rank {self.rank}.",
                remedy="Choose more seeds than tokens, and at least one token and rank 1.",
            )


class SeedPooling(nn.Module):
    """sum_r Z_r^T MHA(Norm(seeds), S, S) W_r: rows of [T, D] -> [B, Q, D].

    S is normalised first (ours); W_r stands for the output projection of the attention.
    """

    def __init__(self, dim: int, heads: int, config: SeedPoolingConfig) -> None:
        super().__init__()
        self.heads = heads
        self.seed_PD = nn.Parameter(torch.randn(config.seeds, dim))
        self.seed_norm = nn.LayerNorm(dim)
        self.norm = nn.LayerNorm(dim)
        self.key_value = nn.Linear(dim, 2 * dim, bias=False)
        self.mix_RPQ = nn.Parameter(torch.randn(config.rank, config.seeds, config.tokens) / math.sqrt(config.seeds))
        self.weight_RDD = nn.Parameter(torch.randn(config.rank, dim, dim) / math.sqrt(config.rank * dim))

    def forward(self, s_TD: Tensor, offsets_B1: Tensor) -> Tensor:
        """Elements [T, D] of rows [B + 1] -> [B, Q, D]; zeros for an empty row."""
        seed_PHD = self.seed_norm(self.seed_PD).unflatten(1, (self.heads, -1))
        both_TGD = self.key_value(self.norm(s_TD)).unflatten(1, (2 * self.heads, -1))
        k_THD, v_THD = both_TGD.chunk(2, dim=1)
        return hierarchical_seed_pool(seed_PHD, k_THD, v_THD, offsets_B1, self.mix_RPQ, self.weight_RDD)
