"""InterFormer: non-sequence tokens and the event sequence inform each other, layer by layer.

Legend: B rows, N non-sequence tokens, T elements of the whole batch (CLS tokens and events), D width,
C summary (= CLS) tokens, P pooled tokens, K recent tokens, M = C + P + K.
Source of the flow: Zeng et al., InterFormer, arXiv 2411.09852, section 4 and algorithm 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from gem_pipeline.errors import ConfigError
from gem_pipeline.kernels.jagged import (
    age_of_element,
    leading,
    newest_padded,
    offsets_to_lengths,
    prepend,
    rotary_phase,
    row_of_element,
)
from gem_pipeline.models.blocks import SelfGate, TokenCompression
from gem_pipeline.models.sequence import AttentionPooling, JaggedSelfAttention, PersonalizedProjection
from gem_pipeline.models.wukong import WukongConfig, WukongLayer


@dataclass(frozen=True, kw_only=True, slots=True)
class InterFormerConfig:
    """Shape of the interleaved trunk.

    Attributes:
        dim: D.
        layers: interleaved layers.
        heads: attention heads; D / heads must be even for rotary positions.
        num_summary: C, summary tokens of the non-sequence side, prepended to the sequence as CLS.
        num_pma: P, learned pooling queries.
        num_recent: K, newest events read as they are.
        pffn_hidden: hidden width of the MLP that writes a row's [D, D] matrix.
        wukong: the interaction layer.
    """

    dim: int
    layers: int
    heads: int
    num_summary: int
    num_pma: int
    num_recent: int
    pffn_hidden: int
    wukong: WukongConfig

    def __post_init__(self) -> None:
        sizes = (self.dim, self.layers, self.heads, self.num_summary, self.num_pma, self.num_recent, self.pffn_hidden)
        if min(sizes) < 1:
            raise ConfigError(f"InterFormer sizes must be at least 1: {self}.", remedy="Raise the size that is 0.")
        if self.dim % (2 * self.heads):
            raise ConfigError(
                f"dim {self.dim} must be a multiple of twice the heads ({self.heads}).",
                remedy="Rotary positions turn pairs within a head: choose fewer heads or a wider dim.",
            )

    @property
    def num_sequence_summary(self) -> int:
        """M, tokens that summarise the sequence."""
        return self.num_summary + self.num_pma + self.num_recent


class NonSequenceSummary(nn.Module):
    """X_sum = Gating(LCE(X)): [B, N, D] -> [B, C, D] (cross arch, first half)."""

    def __init__(self, num_tokens: int, config: InterFormerConfig) -> None:
        super().__init__()
        self.compress = TokenCompression(num_tokens, config.num_summary)
        self.gate = SelfGate(config.dim)

    def forward(self, x_BND: Tensor) -> Tensor:
        """[B, N, D] -> [B, C, D]."""
        return self.gate(self.compress(x_BND))


class SequenceSummary(nn.Module):
    """S_sum = Gating([CLS || PMA || recent]): rows of [T, D] -> [B, M, D] (cross arch, second half)."""

    def __init__(self, config: InterFormerConfig) -> None:
        super().__init__()
        self.num_cls, self.num_recent = config.num_summary, config.num_recent
        self.pma = AttentionPooling(config.num_pma, config.dim, config.heads)
        self.gate = SelfGate(config.dim)

    def forward(self, s_TD: Tensor, offsets_B1: Tensor) -> Tensor:
        """Rows that start with C CLS tokens -> [B, M, D]; a row without events has zero recent tokens."""
        cls_BCD = leading(s_TD, offsets_B1, self.num_cls)
        pma_BPD = self.pma(s_TD, offsets_B1)
        recent_BKD = newest_padded(s_TD, offsets_B1, self.num_recent, skip=self.num_cls)
        return self.gate(torch.cat([cls_BCD, pma_BPD, recent_BKD], dim=1))


class Interaction(nn.Module):
    """X' = restore(Wukong([X || S_sum])): [B, N, D] and [B, M, D] -> [B, N, D] (interaction arch)."""

    def __init__(self, num_tokens: int, config: InterFormerConfig) -> None:
        super().__init__()
        self.wukong = WukongLayer(num_tokens + config.num_sequence_summary, config.dim, config.wukong)
        same = self.wukong.num_out == num_tokens
        self.restore = nn.Identity() if same else TokenCompression(self.wukong.num_out, num_tokens)

    def forward(self, x_BND: Tensor, s_sum_BMD: Tensor) -> Tensor:
        """[B, N, D], [B, M, D] -> [B, N, D]."""
        return self.restore(self.wukong(torch.cat([x_BND, s_sum_BMD], dim=1)))


class SequenceLayer(nn.Module):
    """S' = MHA(PFFN(X_sum, S)): every element stays alive (sequence arch)."""

    def __init__(self, config: InterFormerConfig) -> None:
        super().__init__()
        self.pffn = PersonalizedProjection(config.num_summary, config.dim, config.pffn_hidden)
        self.attention = JaggedSelfAttention(config.dim, config.heads)

    def forward(self, s_TD: Tensor, offsets_B1: Tensor, x_sum_BCD: Tensor, phase_T1H: Tensor) -> Tensor:
        """Elements [T, D], rows [B + 1], summaries [B, C, D], rotary phases -> elements [T, D]."""
        return self.attention(self.pffn(s_TD, offsets_B1, x_sum_BCD), offsets_B1, phase_T1H)


class InterFormer(nn.Module):
    """The interleaved trunk: per layer summarise, then interaction beside sequence; summarise at the end.

    The paper reads the summaries of layer L, which would leave the last interaction and sequence
    modules without a gradient; we summarise once more behind them.
    """

    def __init__(self, num_tokens: int, config: InterFormerConfig) -> None:
        super().__init__()
        self.config = config
        depth = range(config.layers)
        self.x_summaries = nn.ModuleList(NonSequenceSummary(num_tokens, config) for _ in range(config.layers + 1))
        self.s_summaries = nn.ModuleList(SequenceSummary(config) for _ in range(config.layers + 1))
        self.interactions = nn.ModuleList(Interaction(num_tokens, config) for _ in depth)
        self.sequences = nn.ModuleList(SequenceLayer(config) for _ in depth)

    def forward(self, x_BND: Tensor, s_TD: Tensor, offsets_B1: Tensor) -> Tensor:
        """Run the trunk.

        Args:
            x_BND: non-sequence tokens, [B, N, D].
            s_TD: events, [T, D], oldest first within a row.
            offsets_B1: rows of the events, int64 [B + 1]; empty rows are legal.

        Returns:
            The last summaries of both sides, [B, C + M, D].
        """
        x_sum_BCD = self.x_summaries[0](x_BND)
        s_TD, offsets_B1 = prepend(x_sum_BCD, s_TD, offsets_B1)
        phase_T1H = recency_phase(offsets_B1, s_TD, self.config)
        for layer in range(self.config.layers):
            s_sum_BMD = self.s_summaries[layer](s_TD, offsets_B1)
            next_x_BND = self.interactions[layer](x_BND, s_sum_BMD)
            s_TD = self.sequences[layer](s_TD, offsets_B1, x_sum_BCD, phase_T1H)
            x_BND = next_x_BND
            x_sum_BCD = self.x_summaries[layer + 1](x_BND)
        return torch.cat([x_sum_BCD, self.s_summaries[-1](s_TD, offsets_B1)], dim=1)


def recency_phase(offsets_B1: Tensor, s_TD: Tensor, config: InterFormerConfig) -> Tensor:
    """Rotary phases of rows that start with CLS tokens, complex [T, 1, D / heads / 2].

    Every CLS token stands at position 0, the newest event at 1, the one before it at 2: what an event
    means depends on how recent it is, not on how long the row is (ours).
    """
    row_T = row_of_element(offsets_B1, s_TD.shape[0])
    age_T = age_of_element(offsets_B1, row_T)
    num_events_T = offsets_to_lengths(offsets_B1).index_select(0, row_T) - config.num_summary
    position_T = torch.where(age_T < num_events_T, age_T + 1, 0)
    return rotary_phase(position_T, config.dim // config.heads, s_TD.dtype)
