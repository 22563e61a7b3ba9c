"""The interleaved trunk: non-sequence tokens and the event sequence inform each other, layer by layer.

Legend: B rows, N non-sequence tokens, T events of the whole batch, D width, C summary tokens of the
non-sequence side, M tokens that summarise the sequence.
Source of the flow: Zeng et al., InterFormer, arXiv 2411.09852, section 4 and algorithm 1; Kunlun,
arXiv 2602.10016, keeps it with other parts.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from gem_pipeline.errors import ConfigError
from gem_pipeline.models.backbone import EventRows, SequenceBackbone
from gem_pipeline.models.blocks import SelfGate, TokenCompression
from gem_pipeline.models.cross_layer import CrossLayerAttention
from gem_pipeline.models.domains import DomainConfig, DomainExpert
from gem_pipeline.models.experts import ExpertConfig, WukongExperts
from gem_pipeline.models.wukong import WukongConfig, WukongLayer


@dataclass(frozen=True, kw_only=True, slots=True)
class TrunkConfig:
    """Shape of the interleaved trunk.

    Attributes:
        dim: D.
        layers: interleaved layers.
        num_summary: C, summary tokens of the non-sequence side.
        wukong: the interaction layer.
        experts: how it is parted.
        cross_layer_heads: heads of the attention to summaries of earlier layers; 0: none.
        domain: what a surface has of its own.
        num_surfaces: surfaces.
        sequence: builds the sequence side.
        one_directional: the sequence informs the non-sequence side, and is told nothing of it.
    """

    dim: int
    layers: int
    num_summary: int
    wukong: WukongConfig
    experts: ExpertConfig
    cross_layer_heads: int
    domain: DomainConfig
    num_surfaces: int
    sequence: SequenceBackbone
    one_directional: bool = False

    def __post_init__(self) -> None:
        if min(self.dim, self.layers, self.num_summary) < 1:
            raise ConfigError(f"Trunk sizes must be at least 1: {self}.", remedy="Raise the size that is 0.")
        if self.cross_layer_heads < 0 or (self.cross_layer_heads and self.dim % self.cross_layer_heads):
            raise ConfigError(
                f"dim {self.dim} is no multiple of {self.cross_layer_heads} cross-layer heads.",
                remedy="Choose heads that divide the width, or 0 for none.",
            )

    @property
    def num_out(self) -> int:
        """C + M, tokens that leave the trunk."""
        return self.num_summary + self.sequence.num_sequence_summary


class NonSequenceSummary(nn.Module):
    """X_sum = Gating(LCE(X)): [B, N, D] -> [B, C, D] (cross arch, first half)."""

    def __init__(self, num_tokens: int, config: TrunkConfig) -> None:
        super().__init__()
        self.compress = TokenCompression(num_tokens, config.num_summary)
        self.gate = SelfGate(config.dim)

    def forward(self, x_BND: Tensor) -> Tensor:
        """[B, N, D] -> [B, C, D]."""
        return self.gate(self.compress(x_BND))


class Interaction(nn.Module):
    """X' = domain(restore(Wukong([X || S_sum]))): [B, N, D] and [B, M, D] -> [B, N, D] (interaction arch).

    From the second level on X first reads the summaries of earlier layers; Wukong may be parted among experts.
    """

    def __init__(self, num_tokens: int, config: TrunkConfig, level: int) -> None:
        super().__init__()
        num_in, dim = num_tokens + config.sequence.num_sequence_summary, config.dim
        heads = config.cross_layer_heads if level else 0
        self.cross_layer = CrossLayerAttention(dim, heads) if heads else None
        self.wukong = (
            WukongExperts(num_in, dim, config.wukong, experts=config.experts, num_surfaces=config.num_surfaces)
            if config.experts.count > 1
            else WukongLayer(num_in, dim, config.wukong)
        )
        same = self.wukong.num_out == num_tokens
        self.restore = nn.Identity() if same else TokenCompression(self.wukong.num_out, num_tokens)
        width = config.domain.expert_width
        self.domain = DomainExpert(config.num_surfaces, dim, width) if width else None

    def forward(self, x_BND: Tensor, s_sum_BMD: Tensor, stored: list[Tensor], surface_B: Tensor) -> Tensor:
        """[B, N, D], [B, M, D], earlier summaries, each [B, K, D], and surfaces int64 [B] -> [B, N, D]."""
        if self.cross_layer is not None:
            x_BND = self.cross_layer(x_BND, stored)
        joined_BXD = torch.cat([x_BND, s_sum_BMD], dim=1)
        parted = isinstance(self.wukong, WukongExperts)
        mixed_BMD = self.wukong(joined_BXD, surface_B) if parted else self.wukong(joined_BXD)
        restored_BND = self.restore(mixed_BMD)
        return restored_BND if self.domain is None else self.domain(restored_BND, surface_B)


class Trunk(nn.Module):
    """Per layer summarise, then interaction beside sequence; summarise at the end.

    The paper reads the summaries of layer L, which would leave the last interaction and sequence
    modules without a gradient; we summarise once more behind them. A summary of X is made only where it is
    read; elsewhere the one before it stays, or, before the first, X itself, which nobody reads.

    The examples of a request share one row of events up to the first part of the sequence side that reads X_sum.
    """

    def __init__(self, num_tokens: int, config: TrunkConfig) -> None:
        super().__init__()
        self.config = config
        levels, sequence = range(config.layers + 1), config.sequence
        stored = config.layers - 1 if config.cross_layer_heads else 0  # summaries below this level are read later
        told = not config.one_directional
        self.fresh = tuple(
            level < stored or level == config.layers or (told and sequence.reads_context(level)) for level in levels
        )
        self.x_summaries = nn.ModuleList(
            NonSequenceSummary(num_tokens, config) if fresh else nn.Identity() for fresh in self.fresh
        )
        self.entry = sequence.entry()
        self.s_summaries = nn.ModuleList(sequence.summary(level) for level in levels)
        self.interactions = nn.ModuleList(Interaction(num_tokens, config, level) for level in range(config.layers))
        self.sequences = nn.ModuleList(sequence.layer(level) for level in range(config.layers))
        # What the sequence is told instead of the row's summary, where it listens: the same for every row, learned.
        listens = any(sequence.reads_context(level) for level in range(config.layers))
        constant = listens and config.one_directional
        self.told_CD = nn.Parameter(torch.randn(config.num_summary, config.dim)) if constant else None

    @property
    def out_width(self) -> int:
        """Numbers out of a row."""
        return self.config.num_out * self.config.dim

    def _told(self, x_sum_BCD: Tensor, num_rows: int) -> Tensor:
        """What the rows of the sequence side are told of the other one, [B, C, D], or of requests."""
        return x_sum_BCD if self.told_CD is None else self.told_CD.expand(num_rows, -1, -1)

    def forward(self, x_BND: Tensor, rows: EventRows, surface_B: Tensor) -> Tensor:
        """Run the trunk.

        Args:
            x_BND: non-sequence tokens, [B, N, D].
            rows: events, [T, D], one row an example or a request.
            surface_B: surfaces, int64 [B].

        Returns:
            The last summaries of both sides, [B, C + M, D].
        """
        stored: list[Tensor] = []
        x_sum_BCD = self.x_summaries[0](x_BND)
        sequence, told = self.config.sequence, not self.config.one_directional
        rows = rows.spread() if told and sequence.entry_reads_context else rows
        state = self.entry(self._told(x_sum_BCD, rows.offsets_B1.shape[0] - 1), rows)
        for level in range(self.config.layers):
            state = self.s_summaries[level](state)
            next_x_BND = self.interactions[level](x_BND, state.example_summary, stored, surface_B)
            state = state.spread() if told and sequence.reads_context(level) else state
            state = self.sequences[level](state, self._told(x_sum_BCD, state.summary_BMD.shape[0]))
            if self.config.cross_layer_heads:
                stored.append(torch.cat([x_sum_BCD, state.example_summary], dim=1))
            x_BND = next_x_BND
            if self.fresh[level + 1]:
                x_sum_BCD = self.x_summaries[level + 1](x_BND)
        return torch.cat([x_sum_BCD, self.s_summaries[-1](state).example_summary], dim=1)
