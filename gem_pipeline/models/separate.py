"""Several separate sequences instead of one: each group of events has a backbone of its own, merged by the summaries.

What OneSeq is compared with (ours). Legend: B rows, T events of the whole batch, D width, M summary tokens of one
sequence, G groups.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from gem_pipeline.models.backbone import EventRows, SequenceBackbone, SequenceState
from gem_pipeline.models.pyramid import GroupName, group_members, select_rows

SEPARATED: tuple[GroupName, ...] = ("acted", "passive")  # events that the user acted on, and mere views
NUM_GROUPS = len(SEPARATED)


@dataclass(frozen=True, kw_only=True, slots=True)
class SeparateConfig:
    """Shape of the sequence side.

    Attributes:
        inner: the backbone that each group gets one of.
    """

    inner: SequenceBackbone

    @property
    def num_sequence_summary(self) -> int:
        """G x M."""
        return NUM_GROUPS * self.inner.num_sequence_summary

    @property
    def entry_reads_context(self) -> bool:
        """As the inner backbone."""
        return self.inner.entry_reads_context

    def reads_context(self, level: int) -> bool:
        """As the inner backbone."""
        return self.inner.reads_context(level)

    def entry(self) -> nn.Module:
        """Parts the events and enters each part."""
        return SeparateEntry([self.inner.entry() for _ in range(NUM_GROUPS)])

    def summary(self, level: int) -> nn.Module:
        """A summary of each part."""
        return SeparateSummary([self.inner.summary(level) for _ in range(NUM_GROUPS)])

    def layer(self, level: int) -> nn.Module:
        """A layer on each part."""
        return SeparateLayer([self.inner.layer(level) for _ in range(NUM_GROUPS)])


@dataclass(frozen=True, kw_only=True)
class SeparateState:
    """The states of all parts.

    Attributes:
        parts: one state a group.
        summary_BMD: summaries of all parts side by side, [B, G x M, D].
    """

    parts: tuple[SequenceState, ...]
    summary_BMD: Tensor

    @property
    def example_summary(self) -> Tensor:
        """The summaries of each example, [B, G x M, D]."""
        return torch.cat([part.example_summary for part in self.parts], dim=1)

    def spread(self) -> SeparateState:
        """A row an example in every part."""
        return SeparateState.of(part.spread() for part in self.parts)

    @staticmethod
    def of(parts: Iterable[SequenceState]) -> SeparateState:
        """The states of all groups."""
        known = tuple(parts)
        return SeparateState(parts=known, summary_BMD=torch.cat([part.summary_BMD for part in known], dim=1))


class SeparateEntry(nn.Module):
    """Events acted on and the others, each entered by itself."""

    def __init__(self, parts: list[nn.Module]) -> None:
        super().__init__()
        self.parts = nn.ModuleList(parts)

    def forward(self, x_sum_BCD: Tensor, rows: EventRows) -> SeparateState:
        """X_sum [B, C, D] and events [T, D] that tell what was done -> states of both parts."""
        assert rows.did_TK is not None, "the model tells what was done wherever sequences are separate"
        most = rows.value_TD.shape[0]
        entered = [
            part(x_sum_BCD, select_rows(rows, group_members(group, rows.did_TK), most))
            for part, group in zip(self.parts, SEPARATED, strict=True)
        ]
        return SeparateState.of(entered)


class SeparateSummary(nn.Module):
    """Each part summarised by itself."""

    def __init__(self, parts: list[nn.Module]) -> None:
        super().__init__()
        self.parts = nn.ModuleList(parts)

    def forward(self, state: SeparateState) -> SeparateState:
        """States -> states with fresh summaries, [B, M, D] each."""
        return SeparateState.of(part(own) for part, own in zip(self.parts, state.parts, strict=True))


class SeparateLayer(nn.Module):
    """Each part goes through a layer of its own."""

    def __init__(self, parts: list[nn.Module]) -> None:
        super().__init__()
        self.parts = nn.ModuleList(parts)

    def forward(self, state: SeparateState, x_sum_BCD: Tensor) -> SeparateState:
        """States and X_sum [B, C, D] -> states of the next level."""
        pairs = zip(self.parts, state.parts, strict=True)
        return SeparateState.of(part(own, x_sum_BCD) for part, own in pairs)
