"""What the trunk asks of a sequence backbone: three kinds of parts, built level by level (ours).

Legend: B rows, R requests (rows of the same user at the same time; R = B where none are shared), T elements of the
whole batch, D width, C summary tokens of the non-sequence side, M tokens that summarise the sequence, B1 = B + 1.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

from torch import Tensor, nn

from gem_pipeline.batches.requests import window_places
from gem_pipeline.kernels.jagged import (
    age_of_element,
    lengths_to_offsets,
    offsets_to_lengths,
    rotary_phase,
    row_of_element,
)


@dataclass(frozen=True, kw_only=True)
class EventRows:
    """The embedded events of a batch.

    Attributes:
        value_TD: events, [T, D], oldest first within a row.
        offsets_B1: rows of the events, int64 [B + 1], or those of requests, [R + 1]; empty rows are legal.
        gap_s_T: seconds from each event to the impression, [T], at least 0.
        did_TK: numbers above 0 where an event carries a kind, [T, K]; None where nobody asks.
        request_B: the request of each example, int64 [B]; None: every row is an example.
    """

    value_TD: Tensor
    offsets_B1: Tensor
    gap_s_T: Tensor
    did_TK: Tensor | None = None
    request_B: Tensor | None = None

    def spread(self) -> EventRows:
        """A row an example: those of a request have equal rows."""
        if self.request_B is None:
            return self
        place_T, offsets_B1 = example_rows(self.offsets_B1, self.request_B)
        return EventRows(
            value_TD=self.value_TD.index_select(0, place_T),
            offsets_B1=offsets_B1,
            gap_s_T=self.gap_s_T.index_select(0, place_T),
            did_TK=None if self.did_TK is None else self.did_TK.index_select(0, place_T),
        )


@dataclass(frozen=True, kw_only=True)
class SequenceState:
    """A sequence on its way through the layers.

    Attributes:
        s_TD: elements, [T, D].
        offsets_B1: rows of the elements, int64 [B + 1].
        phase_T1H: rotary phases, complex [T, 1, D / heads / 2].
        summary_BMD: the newest summary of the sequence, [B, M, D]; no tokens before the first one.
        request_B: the request of each example, int64 [B], while rows are requests; None: every row is an example.
    """

    s_TD: Tensor
    offsets_B1: Tensor
    phase_T1H: Tensor
    summary_BMD: Tensor
    request_B: Tensor | None = None

    @property
    def example_summary(self) -> Tensor:
        """The summary of each example, [B, M, D]."""
        return self.summary_BMD if self.request_B is None else self.summary_BMD.index_select(0, self.request_B)

    def spread(self) -> SequenceState:
        """A row an example, from where on examples of a request differ."""
        if self.request_B is None:
            return self
        place_T, offsets_B1 = example_rows(self.offsets_B1, self.request_B)
        return SequenceState(
            s_TD=self.s_TD.index_select(0, place_T),
            offsets_B1=offsets_B1,
            phase_T1H=self.phase_T1H.index_select(0, place_T),
            summary_BMD=self.example_summary,
        )

    def with_elements(self, s_TD: Tensor) -> SequenceState:
        """The state behind a layer: elements [T, D] replaced."""
        return replace(self, s_TD=s_TD)

    def with_summary(self, summary_BMD: Tensor) -> SequenceState:
        """The state behind a summary, [B, M, D]."""
        return replace(self, summary_BMD=summary_BMD)


class SequenceBackbone(Protocol):
    """A configuration that builds the sequence side of the trunk; every backbone is one.

    `entry()` maps (X_sum [B, C, D], `EventRows`) to a `SequenceState`, `summary(level)` maps a state to a state
    with a summary, `layer(level)` maps (state, X_sum) to the state of the next level. The trunk asks for
    summaries of the levels 0 ... layers (the last one behind all layers) and for layers 0 ... layers - 1.

    Examples of one request have the same events at the same age. Whatever does not read X_sum is therefore computed
    once a request: the trunk gives each example a row of its own in front of the first part that reads it.
    """

    @property
    def num_sequence_summary(self) -> int:
        """M."""
        ...

    @property
    def entry_reads_context(self) -> bool:
        """Whether the entry reads the summary of the non-sequence side."""
        ...

    def reads_context(self, level: int) -> bool:
        """Whether the layer of this level reads the summary of the non-sequence side."""
        ...

    def entry(self) -> nn.Module:
        """Build what turns events into a state."""
        ...

    def summary(self, level: int) -> nn.Module:
        """Build the summary of a level."""
        ...

    def layer(self, level: int) -> nn.Module:
        """Build the layer of a level."""
        ...


def example_rows(offsets_R1: Tensor, request_B: Tensor) -> tuple[Tensor, Tensor]:
    """Place of every element of each example's row among the elements of requests, and offsets [B + 1]."""
    length_R = offsets_to_lengths(offsets_R1)
    length_B = length_R.index_select(0, request_B)
    return window_places(length_R, request_B, length_B), lengths_to_offsets(length_B)


def recency_position(offsets_B1: Tensor, num_elements: int, num_leading: int) -> Tensor:
    """Position of each element, int64 [T]: leading (CLS) tokens 0, the newest event 1, the one before it 2.

    What an event means depends on how recent it is, not on how long the row is (ours).
    """
    row_T = row_of_element(offsets_B1, num_elements)
    age_T = age_of_element(offsets_B1, row_T)
    num_events_T = offsets_to_lengths(offsets_B1).index_select(0, row_T) - num_leading
    return (age_T + 1).where(age_T < num_events_T, 0)


def recency_phase(offsets_B1: Tensor, s_TD: Tensor, *, num_leading: int, head_dim: int) -> Tensor:
    """Rotary phases of the recency positions of rows with leading tokens, complex [T, 1, head_dim / 2]."""
    return rotary_phase(recency_position(offsets_B1, s_TD.shape[0], num_leading), head_dim, s_TD.dtype)


def no_summary(rows: EventRows) -> Tensor:
    """The summary of a state that has none yet, [B, 0, D]."""
    return rows.value_TD.new_zeros(rows.offsets_B1.shape[0] - 1, 0, rows.value_TD.shape[1])
