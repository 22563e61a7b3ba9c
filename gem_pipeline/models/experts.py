"""Wukong experts: the tokens are parted among several Wukong layers, mixed by a gate that knows the surface.

Legend: B rows, N tokens, E experts, G shared tokens, M tokens out of one expert, D width.
Source: Wukong experts of Kunlun, arXiv 2602.10016 (cross-interaction over feature partitions, sharded by expert
parallelism; whether and how they are gated is not published). The shared tokens and the gate are ours.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from gem_pipeline.errors import ConfigError
from gem_pipeline.models.blocks import TokenCompression
from gem_pipeline.models.heads import GATE_STD
from gem_pipeline.models.wukong import WukongConfig, WukongLayer


@dataclass(frozen=True, kw_only=True, slots=True)
class ExpertConfig:
    """How an interaction layer is parted.

    Attributes:
        count: E; 1 is one plain Wukong layer.
        shared_tokens: G, a linear summary of all tokens that every expert sees beside its own part.
    """

    count: int = 1
    shared_tokens: int = 4

    def __post_init__(self) -> None:
        if min(self.count, self.shared_tokens) < 1:
            raise ConfigError(f"Expert counts must be at least 1: {self}.", remedy="One expert is a plain layer.")


class ExpertGate(nn.Module):
    """E softmax(W [domain || mean token]): weights [B, E] that average 1; a new gate stands close to 1.

    Source: Ma et al., MMoE, 2018, section 4.2, with the surface as the task.
    """

    def __init__(self, num_surfaces: int, dim: int, num_experts: int) -> None:
        super().__init__()
        self.num_experts = num_experts
        self.domain = nn.Embedding(num_surfaces, dim)
        self.choose = nn.Linear(2 * dim, num_experts, bias=False)
        nn.init.normal_(self.choose.weight, std=GATE_STD)

    def forward(self, x_BND: Tensor, surface_B: Tensor) -> Tensor:
        """Tokens [B, N, D] and surfaces int64 [B] -> weights [B, E]."""
        told_BX = torch.cat([self.domain(surface_B), x_BND.mean(dim=1)], dim=1)
        return self.num_experts * torch.softmax(self.choose(told_BX), dim=1)


class WukongExperts(nn.Module):
    """concat_e(g_e Wukong_e([X_e || W_shared X])): [B, N, D] -> [B, E x M, D].

    Token n belongs to expert n mod E. An expert is a whole module that needs its part, the shared tokens and its
    gate only, so experts may live on different devices.
    """

    def __init__(
        self, num_tokens: int, dim: int, wukong: WukongConfig, *, experts: ExpertConfig, num_surfaces: int
    ) -> None:
        super().__init__()
        if num_tokens < experts.count:
            raise ConfigError(
                f"{num_tokens} tokens cannot be parted among {experts.count} experts.", remedy="Choose fewer experts."
            )
        count = experts.count
        part = replace(wukong, fmb_tokens=-(-wukong.fmb_tokens // count), lcb_tokens=-(-wukong.lcb_tokens // count))
        self.num_out = count * (part.fmb_tokens + part.lcb_tokens)
        self.shared = TokenCompression(num_tokens, experts.shared_tokens)
        self.gate = ExpertGate(num_surfaces, dim, count)
        sizes = [len(range(expert, num_tokens, count)) + experts.shared_tokens for expert in range(count)]
        self.experts = nn.ModuleList(WukongLayer(size, dim, part) for size in sizes)

    def forward(self, x_BND: Tensor, surface_B: Tensor) -> Tensor:
        """[B, N, D] and surfaces int64 [B] -> [B, E x M, D]."""
        shared_BGD = self.shared(x_BND)
        gate_BE = self.gate(x_BND, surface_B)
        count = len(self.experts)
        parts = [
            gate_BE[:, expert, None, None] * layer(torch.cat([x_BND[:, expert::count], shared_BGD], dim=1))
            for expert, layer in enumerate(self.experts)
        ]
        return torch.cat(parts, dim=1)
