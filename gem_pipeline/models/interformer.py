"""InterFormer's sequence side: CLS tokens in front, full attention, a matrix of its own for every example.

Legend: B rows, T elements of the whole batch (CLS tokens and events), D width, C summary (= CLS) tokens,
P pooled tokens, K recent tokens, M = C + P + K.
Source: Zeng et al., InterFormer, arXiv 2411.09852, section 4 and algorithm 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from gem_pipeline.errors import ConfigError
from gem_pipeline.kernels.jagged import leading, newest_padded, prepend
from gem_pipeline.models.backbone import EventRows, SequenceState, no_summary, recency_phase
from gem_pipeline.models.blocks import SelfGate
from gem_pipeline.models.sequence import AttentionPooling, JaggedSelfAttention, PersonalizedProjection


@dataclass(frozen=True, kw_only=True, slots=True)
class InterFormerConfig:
    """Shape of the sequence side.

    Attributes:
        dim: D.
        heads: attention heads; D / heads must be even for rotary positions.
        num_summary: C, summary tokens of the non-sequence side, prepended to the sequence as CLS.
        num_pma: P, learned pooling queries.
        num_recent: K, newest events read as they are.
        pffn_hidden: hidden width of the MLP that writes a row's [D, D] matrix.
    """

    dim: int
    heads: int
    num_summary: int
    num_pma: int
    num_recent: int
    pffn_hidden: int

    def __post_init__(self) -> None:
        sizes = (self.dim, self.heads, self.num_summary, self.num_pma, self.num_recent, self.pffn_hidden)
        if min(sizes) < 1:
            raise ConfigError(f"InterFormer sizes must be at least 1: {self}.", remedy="Raise the size that is 0.")
        check_heads(self.dim, self.heads)

    @property
    def num_sequence_summary(self) -> int:
        """M, tokens that summarise the sequence."""
        return self.num_summary + self.num_pma + self.num_recent

    @property
    def entry_reads_context(self) -> bool:
        """CLS tokens stand among the events, so rows of a request differ from here on."""
        return True

    def reads_context(self, level: int) -> bool:
        """Every level writes its matrix from X_sum."""
        return level >= 0

    def entry(self) -> nn.Module:
        """CLS tokens in front of the events."""
        return ClsEntry(self)

    def summary(self, level: int) -> nn.Module:
        """A fresh summary at every level."""
        return SequenceSummary(self)

    def layer(self, level: int) -> nn.Module:
        """The same layer at every level."""
        return SequenceLayer(self)


def check_heads(dim: int, heads: int) -> None:
    """Refuse heads that rotary positions cannot turn.

    Raises:
        ConfigError: a head has an odd or broken width.
    """
    if dim % (2 * heads):
        raise ConfigError(
            f"dim {dim} must be a multiple of twice the heads ({heads}).",
            remedy="Rotary positions turn pairs within a head: choose fewer heads or a wider dim.",
        )


class ClsEntry(nn.Module):
    """Prepend X_sum to the events of every row as CLS tokens: S = [X_sum || S]."""

    def __init__(self, config: InterFormerConfig) -> None:
        super().__init__()
        self.config = config

    def forward(self, x_sum_BCD: Tensor, rows: EventRows) -> SequenceState:
        """X_sum [B, C, D] and events [T, D] -> state with T + B * C elements."""
        s_TD, offsets_B1 = prepend(x_sum_BCD, rows.value_TD, rows.offsets_B1)
        head_dim = self.config.dim // self.config.heads
        phase_T1H = recency_phase(offsets_B1, s_TD, num_leading=self.config.num_summary, head_dim=head_dim)
        return SequenceState(
            s_TD=s_TD,
            offsets_B1=offsets_B1,
            phase_T1H=phase_T1H,
            summary_BMD=no_summary(rows),
            request_B=rows.request_B,
        )


class SequenceSummary(nn.Module):
    """S_sum = Gating([CLS || PMA || recent]): rows of [T, D] -> [B, M, D] (cross arch, second half)."""

    def __init__(self, config: InterFormerConfig) -> None:
        super().__init__()
        self.num_cls, self.num_recent = config.num_summary, config.num_recent
        self.pma = AttentionPooling(config.num_pma, config.dim, config.heads)
        self.gate = SelfGate(config.dim)

    def forward(self, state: SequenceState) -> SequenceState:
        """Rows that start with C CLS tokens -> summary [B, M, D]; a row without events has zero recent tokens."""
        cls_BCD = leading(state.s_TD, state.offsets_B1, self.num_cls)
        pma_BPD = self.pma(state.s_TD, state.offsets_B1)
        recent_BKD = newest_padded(state.s_TD, state.offsets_B1, self.num_recent, skip=self.num_cls)
        return state.with_summary(self.gate(torch.cat([cls_BCD, pma_BPD, recent_BKD], dim=1)))


class SequenceLayer(nn.Module):
    """S' = MHA(PFFN(X_sum, S)): every element stays alive (sequence arch)."""

    def __init__(self, config: InterFormerConfig) -> None:
        super().__init__()
        self.pffn = PersonalizedProjection(config.num_summary, config.dim, config.pffn_hidden)
        self.attention = JaggedSelfAttention(config.dim, config.heads)

    def forward(self, state: SequenceState, x_sum_BCD: Tensor) -> SequenceState:
        """Elements [T, D] and summaries [B, C, D] -> elements [T, D]."""
        s_TD = self.pffn(state.s_TD, state.offsets_B1, x_sum_BCD)
        return state.with_elements(self.attention(s_TD, state.offsets_B1, state.phase_T1H))
