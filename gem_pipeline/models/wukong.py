"""Wukong: stacked factorization machines over token embeddings.

Legend: B rows, N tokens, D width, K rank of the optimised factorization machine.
Source of every block: Zhang et al., Wukong, arXiv 2403.02545, section 3.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from gem_pipeline.errors import ConfigError
from gem_pipeline.models.blocks import TokenCompression, mlp


@dataclass(frozen=True, kw_only=True, slots=True)
class WukongConfig:
    """Shape of one Wukong layer.

    Attributes:
        fmb_tokens: tokens out of the factorization machine block.
        lcb_tokens: tokens out of the linear compress block.
        rank: K, columns of Y in X (X^T Y).
        hidden: hidden widths of the MLP inside the factorization machine block.
        attentive_y: Y is computed from the input instead of learned once.
        attentive_tokens: tokens to which the input is compressed before Y is computed.
        attentive_hidden: hidden width of the MLP that computes Y.
        dropout: on the hidden units of the MLP.
    """

    fmb_tokens: int
    lcb_tokens: int
    rank: int
    hidden: tuple[int, ...]
    attentive_y: bool = True
    attentive_tokens: int = 4
    attentive_hidden: int = 32
    dropout: float = 0.0

    def __post_init__(self) -> None:
        sizes = (self.fmb_tokens, self.lcb_tokens, self.rank, self.attentive_tokens, self.attentive_hidden)
        if min(*sizes, *self.hidden) < 1:
            raise ConfigError(f"Wukong sizes must be at least 1: {self}.", remedy="Raise the size that is 0.")


class AttentiveY(nn.Module):
    """Compute Y from the tokens: compress them linearly, run an MLP, shape the result [N, K].

    The paper gives this in prose only (section 3.3, "optimized FM"); sizes are ours.
    """

    def __init__(self, num_tokens: int, dim: int, config: WukongConfig) -> None:
        super().__init__()
        self.shape = (num_tokens, config.rank)
        self.compress = TokenCompression(num_tokens, config.attentive_tokens)
        self.mlp = mlp([config.attentive_tokens * dim, config.attentive_hidden, num_tokens * config.rank])

    def forward(self, x_BND: Tensor) -> Tensor:
        """[B, N, D] -> Y [B, N, K]."""
        return self.mlp(self.compress(x_BND).flatten(1)).unflatten(1, self.shape)


class StaticY(nn.Module):
    """Y learned once for all rows, [N, K]."""

    def __init__(self, num_tokens: int, config: WukongConfig) -> None:
        super().__init__()
        self.y_NK = nn.Parameter(torch.empty(num_tokens, config.rank))
        nn.init.normal_(self.y_NK, std=1.0 / math.sqrt(num_tokens))

    def forward(self, x_BND: Tensor) -> Tensor:
        """[B, N, D] -> Y [B, N, K], the same for every row."""
        return self.y_NK.expand(x_BND.shape[0], -1, -1)


class FactorizationMachineBlock(nn.Module):
    """FMB(X) = reshape(MLP(LN(flatten(X (X^T Y))))): [B, N, D] -> [B, fmb_tokens, D].

    X^T Y is contracted first, so the cost is linear in N (section 3.3).
    """

    def __init__(self, num_tokens: int, dim: int, config: WukongConfig) -> None:
        super().__init__()
        self.y = AttentiveY(num_tokens, dim, config) if config.attentive_y else StaticY(num_tokens, config)
        width = num_tokens * config.rank
        self.norm = nn.LayerNorm(width)
        self.mlp = mlp([width, *config.hidden, config.fmb_tokens * dim], dropout=config.dropout)
        self.shape = (config.fmb_tokens, dim)

    def forward(self, x_BND: Tensor) -> Tensor:
        """[B, N, D] -> [B, fmb_tokens, D]."""
        interaction_BDK = torch.bmm(x_BND.transpose(1, 2), self.y(x_BND))
        fm_BNK = torch.bmm(x_BND, interaction_BDK)
        return self.mlp(self.norm(fm_BNK.flatten(1))).unflatten(1, self.shape)


class WukongLayer(nn.Module):
    """X' = LN(concat(FMB(X), LCB(X)) + R(X)): [B, N, D] -> [B, fmb_tokens + lcb_tokens, D].

    R is the identity where the token count stays, else a learned mix of the tokens.
    """

    def __init__(self, num_tokens: int, dim: int, config: WukongConfig) -> None:
        super().__init__()
        self.num_out = config.fmb_tokens + config.lcb_tokens
        self.fmb = FactorizationMachineBlock(num_tokens, dim, config)
        self.lcb = TokenCompression(num_tokens, config.lcb_tokens)
        same = num_tokens == self.num_out
        self.residual = nn.Identity() if same else TokenCompression(num_tokens, self.num_out)
        self.norm = nn.LayerNorm(dim)

    def forward(self, x_BND: Tensor) -> Tensor:
        """[B, N, D] -> [B, fmb_tokens + lcb_tokens, D]."""
        mixed_BMD = torch.cat([self.fmb(x_BND), self.lcb(x_BND)], dim=1)
        return self.norm(mixed_BMD + self.residual(x_BND))
