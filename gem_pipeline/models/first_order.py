"""First-order terms: what each id, each number and the recent history say on their own, straight to the logits.

Deep blocks see products of inputs; with little data the plain sums must not have to pass through them.
Legend: B rows, K objectives, S surfaces, F dense inputs, E event numbers, T events kept.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from gem_pipeline.batches.batch import Batch
from gem_pipeline.batches.layout import InputLayout
from gem_pipeline.kernels.jagged import lengths_to_offsets, newest_index, offsets_to_lengths
from gem_pipeline.models.embeddings import (
    EmbeddedInput,
    FeatureEmbeddings,
    logit_width,
    mean_by_segment,
    newest_events,
)

INIT_STD = 0.01
HISTORY_SCALE = 4.0  # the mean over a history moves less than a single id: it is given more weight
LENGTH_SCALE = 4.0  # log1p of the history's length is divided by this
SURFACE_SCALE = 0.3  # per-surface slopes learn slower than the shared ones: a smaller surface has less data


class HistoryStatistics(nn.Module):
    """Means of the event numbers over the newest events of a row, for several windows, and the log of their count.

    Softmax attention averages as well, but only after it has learned to; these say it from the first step (ours).
    """

    def __init__(self, windows: tuple[int, ...], num_event_dense: int) -> None:
        super().__init__()
        self.windows = windows
        self.num_numbers = len(windows) * num_event_dense + 1

    def forward(self, event_dense_TE: Tensor, offsets_B1: Tensor) -> Tensor:
        """Event numbers [T, E] of rows [B + 1] -> [B, windows x E + 1]; zeros where there is no history."""
        means = []
        for window in self.windows:
            kept, kept_offsets_B1 = newest_index(offsets_B1, window, event_dense_TE.shape[0])
            means.append(mean_by_segment(event_dense_TE.index_select(0, kept), offsets_to_lengths(kept_offsets_B1)))
        length_B1 = offsets_to_lengths(offsets_B1).to(event_dense_TE.dtype)[:, None]
        return torch.cat([*means, torch.log1p(length_B1) / LENGTH_SCALE], dim=1)


class FirstOrderTerms(nn.Module):
    """Logits that are linear in the inputs: ids, numbers (with a slope of their own a surface), recent events.

    Source: the wide part of Wide & Deep, Cheng et al., arXiv 1606.07792; the slope a surface follows STAR,
    arXiv 2101.11427, section 3.2.
    """

    def __init__(self, layout: InputLayout, num_numbers: int, history: int) -> None:
        super().__init__()
        num_objectives, num_surfaces = len(layout.objectives), len(layout.surfaces)
        self.layout, self.history, self.num_objectives = layout, history, num_objectives
        self.ids = FeatureEmbeddings(layout, logit_width(num_objectives), init_std=INIT_STD)
        self.slope = nn.Linear(num_numbers, num_objectives, bias=False)
        self.surface_slope_SFK = nn.Parameter(torch.zeros(num_surfaces, num_numbers, num_objectives))
        nn.init.zeros_(self.slope.weight)

    def forward(self, batch: Batch, number_BF: Tensor) -> Tensor:
        """A batch and its normalised numbers [B, F] -> logits [B, K]."""
        embedded, event_TK, length_R = self._recent(batch)
        recent_BK = batch.spread_requests(HISTORY_SCALE * mean_by_segment(event_TK, length_R))
        id_BK = (embedded.token_BND.sum(dim=1) + recent_BK)[:, : self.num_objectives]
        surface_FK = self.surface_slope_SFK.index_select(0, batch.surface_B)  # its gradient is summed in order
        surface_BK = torch.bmm(number_BF[:, None, :], surface_FK).squeeze(1)
        return id_BK + self.slope(number_BF) + SURFACE_SCALE * surface_BK

    def _recent(self, batch: Batch) -> tuple[EmbeddedInput, Tensor, Tensor]:
        """Embedded ids, the vectors of the newest events [T, K] and their number in each window [R].

        Shared histories are looked up whole, once; a row's own window is cut before anything is looked up.
        """
        if batch.shared is None:
            ids, _ = newest_events(batch.ids, self.layout, self.history)
            embedded = self.ids(ids)
            return embedded, torch.stack(embedded.event_TD).sum(dim=0), offsets_to_lengths(embedded.offsets_B1)
        embedded = self.ids(batch.ids)
        index_T = batch.shared.index_T
        kept, kept_B1 = newest_index(lengths_to_offsets(batch.shared.length_R), self.history, index_T.shape[0])
        stored_UK = torch.stack(embedded.event_TD).sum(dim=0)
        return embedded, stored_UK.index_select(0, index_T.index_select(0, kept)), offsets_to_lengths(kept_B1)
