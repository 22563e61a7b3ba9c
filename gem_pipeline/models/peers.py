"""Sequence backbones to compare with, behind the same interface: HSTU and a plain Transformer.

Neither reads the non-sequence side; both are summarised by learned queries and the newest events.
Legend: B rows, T events of the whole batch, D width, H heads, P pooled tokens, K recent tokens, M = P + K.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import silu

from gem_pipeline.errors import ConfigError
from gem_pipeline.kernels.jagged import newest_padded
from gem_pipeline.kernels.pointwise import gdpa
from gem_pipeline.models.backbone import EventRows, SequenceState, no_summary, recency_phase, recency_position
from gem_pipeline.models.blocks import SelfGate, mlp
from gem_pipeline.models.interformer import check_heads
from gem_pipeline.models.sequence import AttentionPooling, JaggedSelfAttention

FFN_WIDENING = 4
NUM_BUCKETS = 32  # powers of two: of positions, and of time gaps in seconds
Peer = Literal["hstu", "transformer"]


@dataclass(frozen=True, kw_only=True, slots=True)
class PeerConfig:
    """Shape of the sequence side.

    Attributes:
        kind: `hstu` or `transformer`.
        dim: D.
        heads: H.
        num_pma: P, learned pooling queries.
        num_recent: K, newest events read as they are.
        longest: events of a row at most; HSTU divides its sums by it.
    """

    kind: Peer
    dim: int
    heads: int
    num_pma: int
    num_recent: int
    longest: int

    def __post_init__(self) -> None:
        if min(self.dim, self.heads, self.num_pma, self.num_recent, self.longest) < 1:
            raise ConfigError(f"Backbone sizes must be at least 1: {self}.", remedy="Raise the size that is 0.")
        check_heads(self.dim, self.heads)

    @property
    def num_sequence_summary(self) -> int:
        """M, pooled and recent tokens."""
        return self.num_pma + self.num_recent

    @property
    def entry_reads_context(self) -> bool:
        """No part reads the other side: a request's history is encoded once, through all layers."""
        return False

    def reads_context(self, level: int) -> bool:
        """No level reads the other side."""
        return False

    def entry(self) -> nn.Module:
        """Learned buckets for HSTU, rotary positions for the Transformer."""
        return BucketEntry(self) if self.kind == "hstu" else RotaryEntry(self)

    def summary(self, level: int) -> nn.Module:
        """A fresh summary at every level."""
        return PooledSummary(self)

    def layer(self, level: int) -> nn.Module:
        """The same layer at every level."""
        return HstuLayer(self) if self.kind == "hstu" else TransformerLayer(self)


class RotaryEntry(nn.Module):
    """Events with rotary recency positions (arXiv 2104.09864)."""

    def __init__(self, config: PeerConfig) -> None:
        super().__init__()
        self.head_dim = config.dim // config.heads

    def forward(self, x_sum_BCD: Tensor, rows: EventRows) -> SequenceState:
        """X_sum [B, C, D] and events [T, D] -> state with the T events."""
        phase_T1H = recency_phase(rows.offsets_B1, rows.value_TD, num_leading=0, head_dim=self.head_dim)
        return SequenceState(
            s_TD=rows.value_TD,
            offsets_B1=rows.offsets_B1,
            phase_T1H=phase_T1H,
            summary_BMD=no_summary(rows),
            request_B=rows.request_B,
        )


class BucketEntry(nn.Module):
    """Events plus learned vectors of their position and time gap, both in buckets of powers of two.

    The newer public code of HSTU (meta-recsys/generative-recommenders, modules/stu.py) adds position and time to the
    input in place of the paper's bias on the scores; so do we.
    """

    def __init__(self, config: PeerConfig) -> None:
        super().__init__()
        self.rotary = RotaryEntry(config)
        self.position = nn.Embedding(NUM_BUCKETS, config.dim)
        self.gap = nn.Embedding(NUM_BUCKETS, config.dim)

    def forward(self, x_sum_BCD: Tensor, rows: EventRows) -> SequenceState:
        """X_sum [B, C, D] and events [T, D] -> state with the T events."""
        state = self.rotary(x_sum_BCD, rows)
        position_T = recency_position(rows.offsets_B1, rows.value_TD.shape[0], 0)
        told_TD = self.position(_bucket(position_T)) + self.gap(_bucket(rows.gap_s_T))
        return state.with_elements(rows.value_TD + told_TD)


def _bucket(x_T: Tensor) -> Tensor:
    """floor(log2(1 + x)), at most 31, int64 [T]."""
    return torch.log2(1.0 + x_T.double()).floor().clamp(max=NUM_BUCKETS - 1).long()


class HstuLayer(nn.Module):
    """[U, V, Q, K] = SiLU(W_1 LN(X)); X + W_2(LN(SiLU(Q K^T) V / N) * U).

    Source: Zhai et al., HSTU, arXiv 2402.17152, section 3.2; N is the longest history.
    """

    def __init__(self, config: PeerConfig) -> None:
        super().__init__()
        self.heads, self.scale = config.heads, 1.0 / config.longest
        self.norm, self.inner_norm = nn.LayerNorm(config.dim), nn.LayerNorm(config.dim)
        self.project = nn.Linear(config.dim, 4 * config.dim)
        self.out = nn.Linear(config.dim, config.dim)

    def forward(self, state: SequenceState, x_sum_BCD: Tensor) -> SequenceState:
        """Elements [T, D] -> elements [T, D]."""
        u_TD, *rest = silu(self.project(self.norm(state.s_TD))).chunk(4, dim=1)
        v_THD, q_THD, k_THD = (x.unflatten(1, (self.heads, -1)) for x in rest)
        bounds = state.offsets_B1
        read_THD = gdpa(q_THD, k_THD, v_THD, bounds, bounds, activation="silu", scale=self.scale)
        return state.with_elements(state.s_TD + self.out(self.inner_norm(read_THD.flatten(1)) * u_TD))


class TransformerLayer(nn.Module):
    """S <- S + MHA(LN(S)); S <- S + FFN(LN(S)), both ways in time.

    Source: Vaswani et al., arXiv 1706.03762, with the norm in front.
    """

    def __init__(self, config: PeerConfig) -> None:
        super().__init__()
        self.attention = JaggedSelfAttention(config.dim, config.heads)
        self.norm = nn.LayerNorm(config.dim)
        self.feed_forward = mlp([config.dim, FFN_WIDENING * config.dim, config.dim])

    def forward(self, state: SequenceState, x_sum_BCD: Tensor) -> SequenceState:
        """Elements [T, D] -> elements [T, D]."""
        s_TD = self.attention(state.s_TD, state.offsets_B1, state.phase_T1H)
        return state.with_elements(s_TD + self.feed_forward(self.norm(s_TD)))


class PooledSummary(nn.Module):
    """Gating([PMA || recent]): rows of [T, D] -> [B, M, D], as InterFormer does without CLS."""

    def __init__(self, config: PeerConfig) -> None:
        super().__init__()
        self.num_recent = config.num_recent
        self.pma = AttentionPooling(config.num_pma, config.dim, config.heads)
        self.gate = SelfGate(config.dim)

    def forward(self, state: SequenceState) -> SequenceState:
        """State -> state with a fresh summary [B, M, D]; zeros where a row has no event."""
        recent_BKD = newest_padded(state.s_TD, state.offsets_B1, self.num_recent)
        pooled_BPD = self.pma(state.s_TD, state.offsets_B1)
        return state.with_summary(self.gate(torch.cat([pooled_BPD, recent_BKD], dim=1)))
