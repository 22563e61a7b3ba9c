"""Kunlun's sequence side: GDPA, hierarchical seed pooling, near attention, and layers that skip half of it.

Legend: B rows, T events of the whole batch, D width, H heads, C summary tokens of the non-sequence side, Q pooled
tokens, K recent tokens, M = Q + K.
Source: Kunlun, arXiv 2602.10016 (its full text was not at hand: research notes and Meta's official kernels), and the
PyTorch blog on GDPA (2026-07). What is ours is said where it stands.

What examples of a request can share: phases, the first pooling and its gate. The first GDPA writes X_sum of the
example into every event, so whatever follows it is the example's own, near attention included. What impressions of a
user at different times can share ends before: an event's vector holds its time gap behind a norm, its phase turns with
position and log gap, and blocks are counted from the newest event, so near attention depends on the impression even
without GDPA in front.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import layer_norm, rms_norm

from gem_pipeline.errors import ConfigError
from gem_pipeline.kernels.jagged import newest_padded
from gem_pipeline.kernels.pointwise import ACTIVATIONS, Activation, gdpa
from gem_pipeline.kernels.rotary import log_time_phase
from gem_pipeline.models.backbone import EventRows, SequenceState, no_summary, recency_position
from gem_pipeline.models.blocks import SelfGate
from gem_pipeline.models.interformer import check_heads
from gem_pipeline.models.near_attention import NearAttention, NearConfig
from gem_pipeline.models.pooling import SeedPooling, SeedPoolingConfig
from gem_pipeline.models.sequence import AttentionPooling

Pooling = Literal["hsp", "pma"]


@dataclass(frozen=True, kw_only=True, slots=True)
class KunlunSettings:
    """What a rung chooses of Kunlun.

    Attributes:
        pool: seeds, tokens and rank of the pooling.
        pooling: `hsp`, or `pma` for as many learned queries as tokens (the ablation).
        near: reach of self-attention.
        activation: of GDPA.
        time_scale_s: time gaps well below it are alike to the rotary phase, seconds.
        comp_skip: even levels pool afresh and personalise, odd ones attend and keep the pooled tokens; False: every
            level does all.
    """

    pool: SeedPoolingConfig = SeedPoolingConfig()  # noqa: RUF009
    pooling: Pooling = "hsp"
    near: NearConfig = NearConfig()  # noqa: RUF009
    activation: Activation = "gelu"
    time_scale_s: float = 60.0
    comp_skip: bool = True

    def __post_init__(self) -> None:
        if self.pooling not in {"hsp", "pma"} or self.activation not in ACTIVATIONS or self.time_scale_s <= 0.0:
            raise ConfigError(
                f"Kunlun cannot run with {self}.",
                remedy=f"Pool by hsp or pma, activate by one of {', '.join(ACTIVATIONS)}, scale time above 0.",
            )


@dataclass(frozen=True, kw_only=True, slots=True)
class KunlunConfig:
    """Shape of the sequence side.

    Attributes:
        dim: D.
        layers: levels; behind the last one the summary is fresh.
        heads: H.
        num_summary: C, keys of GDPA.
        num_recent: K, newest events read as they are.
        settings: everything else.
    """

    dim: int
    layers: int
    heads: int
    num_summary: int
    num_recent: int
    settings: KunlunSettings

    def __post_init__(self) -> None:
        if min(self.dim, self.layers, self.heads, self.num_summary, self.num_recent) < 1:
            raise ConfigError(f"Kunlun sizes must be at least 1: {self}.", remedy="Raise the size that is 0.")
        check_heads(self.dim, self.heads)

    @property
    def num_sequence_summary(self) -> int:
        """M, pooled and recent tokens."""
        return self.settings.pool.tokens + self.num_recent

    def personalises(self, level: int) -> bool:
        """Whether a level runs GDPA (and pools afresh)."""
        return not self.settings.comp_skip or level % 2 == 0

    def attends(self, level: int) -> bool:
        """Whether a level runs self-attention."""
        return not self.settings.comp_skip or level % 2 == 1

    @property
    def entry_reads_context(self) -> bool:
        """Phases need the events alone; rows of a request stay alike up to the first GDPA."""
        return False

    def reads_context(self, level: int) -> bool:
        """Only GDPA reads X_sum."""
        return self.personalises(level)

    def entry(self) -> nn.Module:
        """Log-time phases."""
        return LogTimeEntry(self.dim // self.heads, self.settings.time_scale_s)

    def summary(self, level: int) -> nn.Module:
        """A fresh summary; on levels that skip it, the one before stays."""
        fresh = self.personalises(level) or level == self.layers
        return KunlunSummary(self) if fresh else nn.Identity()

    def layer(self, level: int) -> nn.Module:
        """The parts of a level."""
        return KunlunLayer(self, personalise=self.personalises(level), attend=self.attends(level))


class LogTimeEntry(nn.Module):
    """Give events phases of position and log time (ROTE); no CLS tokens: GDPA brings X_sum to every event."""

    def __init__(self, head_dim: int, time_scale_s: float) -> None:
        super().__init__()
        self.head_dim, self.time_scale_s = head_dim, time_scale_s

    def forward(self, x_sum_BCD: Tensor, rows: EventRows) -> SequenceState:
        """X_sum [B, C, D] and events [T, D] -> state with the T events."""
        phase_T1H = log_time_phase(
            recency_position(rows.offsets_B1, rows.value_TD.shape[0], 0),
            rows.gap_s_T,
            self.head_dim,
            rows.value_TD.dtype,
            time_scale_s=self.time_scale_s,
        )
        return SequenceState(
            s_TD=rows.value_TD,
            offsets_B1=rows.offsets_B1,
            phase_T1H=phase_T1H,
            summary_BMD=no_summary(rows),
            request_B=rows.request_B,
        )


class KunlunSummary(nn.Module):
    """S_sum = Gating([HSP(S) || recent]): rows of [T, D] -> [B, M, D]; recent tokens and gate are InterFormer's."""

    def __init__(self, config: KunlunConfig) -> None:
        super().__init__()
        self.num_recent = config.num_recent
        pool = config.settings.pool
        self.pool = (
            SeedPooling(config.dim, config.heads, pool)
            if config.settings.pooling == "hsp"
            else AttentionPooling(pool.tokens, config.dim, config.heads)
        )
        self.gate = SelfGate(config.dim)

    def forward(self, state: SequenceState) -> SequenceState:
        """State -> state with a fresh summary [B, M, D]; zeros where a row has no event."""
        recent_BKD = newest_padded(state.s_TD, state.offsets_B1, self.num_recent)
        pooled_BQD = self.pool(state.s_TD, state.offsets_B1)
        return state.with_summary(self.gate(torch.cat([pooled_BQD, recent_BKD], dim=1)))


class GdpaFeedForward(nn.Module):
    """S + RMS(act(q k^T) v / sqrt(C) + q), q = LN(S), k = W_1 X_sum / sqrt(D / H), v = W_2 X_sum.

    Both norms carry no weights. The order is the PyTorch blog's; the two scales are ours (the paper divides scores
    by a length, the official kernel leaves the factor to the caller).
    """

    def __init__(self, dim: int, heads: int, activation: Activation) -> None:
        super().__init__()
        self.heads, self.activation = heads, activation
        self.key = nn.Linear(dim, dim, bias=False)
        self.value = nn.Linear(dim, dim, bias=False)

    def forward(self, s_TD: Tensor, offsets_B1: Tensor, x_sum_BCD: Tensor) -> Tensor:
        """Elements [T, D] of rows [B + 1] and summaries [B, C, D] -> elements [T, D]."""
        num_rows, num_keys, dim = x_sum_BCD.shape
        q_THD = layer_norm(s_TD, (dim,)).unflatten(1, (self.heads, -1))
        k_THD, v_THD = (w(x_sum_BCD.flatten(0, 1)).unflatten(1, (self.heads, -1)) for w in (self.key, self.value))
        kv_offsets_B1 = torch.arange(num_rows + 1, device=s_TD.device) * num_keys
        read_THD = gdpa(
            q_THD,
            k_THD / math.sqrt(dim // self.heads),
            v_THD,
            offsets_B1,
            kv_offsets_B1,
            activation=self.activation,
            scale=1.0 / math.sqrt(num_keys),
        )
        return s_TD + rms_norm((read_THD + q_THD).flatten(1), (dim,))


class KunlunLayer(nn.Module):
    """S <- GDPA(S; X_sum), S <- near attention (S); a level may skip either (CompSkip)."""

    def __init__(self, config: KunlunConfig, *, personalise: bool, attend: bool) -> None:
        super().__init__()
        settings = config.settings
        self.pffn = GdpaFeedForward(config.dim, config.heads, settings.activation) if personalise else None
        self.attention = NearAttention(config.dim, config.heads, settings.near) if attend else None

    def forward(self, state: SequenceState, x_sum_BCD: Tensor) -> SequenceState:
        """Elements [T, D] and summaries [B, C, D] -> elements [T, D]."""
        s_TD = state.s_TD
        if self.pffn is not None:
            s_TD = self.pffn(s_TD, state.offsets_B1, x_sum_BCD)
        if self.attention is not None:
            s_TD = self.attention(s_TD, state.offsets_B1, state.phase_T1H)
        return state.with_elements(s_TD)
