"""Early compression: the history becomes one vector before the trunk and stays that vector (a road not taken).

Legend: B rows, T events of the whole batch, D width, C summary tokens of the non-sequence side.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from gem_pipeline.errors import ConfigError
from gem_pipeline.models.backbone import EventRows, SequenceState
from gem_pipeline.models.interformer import check_heads
from gem_pipeline.models.peers import PeerConfig, RotaryEntry
from gem_pipeline.models.sequence import AttentionPooling


@dataclass(frozen=True, kw_only=True, slots=True)
class CompressedConfig:
    """Shape of the sequence side.

    Attributes:
        dim: D.
        heads: attention heads of the pooling.
    """

    dim: int
    heads: int

    def __post_init__(self) -> None:
        if min(self.dim, self.heads) < 1:
            raise ConfigError(f"Backbone sizes must be at least 1: {self}.", remedy="Raise the size that is 0.")
        check_heads(self.dim, self.heads)

    @property
    def num_sequence_summary(self) -> int:
        """One token."""
        return 1

    @property
    def entry_reads_context(self) -> bool:
        """Pooling reads the events alone."""
        return False

    def reads_context(self, level: int) -> bool:
        """No level reads the other side."""
        return False

    def entry(self) -> nn.Module:
        """Pools the history once, with one learned query."""
        return CompressedEntry(self)

    def summary(self, level: int) -> nn.Module:
        """The same vector at every level."""
        return nn.Identity()

    def layer(self, level: int) -> nn.Module:
        """Nothing happens to the sequence."""
        return Untouched()


class CompressedEntry(nn.Module):
    """PMA with one query over the events: rows of [T, D] -> summary [B, 1, D]; zeros for an empty row.

    Source of the pooling: Lee et al., Set Transformer, arXiv 1810.00825, section 3.2. That a history enters the
    interaction as one pooled vector is what InterFormer, arXiv 2411.09852, section 1, calls aggressive aggregation.
    """

    def __init__(self, config: CompressedConfig) -> None:
        super().__init__()
        shape = {"dim": config.dim, "heads": config.heads, "num_pma": 1, "num_recent": 1, "longest": 1}
        self.events = RotaryEntry(PeerConfig(kind="transformer", **shape))
        self.pool = AttentionPooling(1, config.dim, config.heads)

    def forward(self, x_sum_BCD: Tensor, rows: EventRows) -> SequenceState:
        """X_sum [B, C, D] and events [T, D] -> state that carries its one token."""
        return self.events(x_sum_BCD, rows).with_summary(self.pool(rows.value_TD, rows.offsets_B1))


class Untouched(nn.Module):
    """The state of the level below."""

    def forward(self, state: SequenceState, x_sum_BCD: Tensor) -> SequenceState:
        """State -> the same state."""
        return state
