"""First-order terms: what each id, each number and the recent history say on their own, straight to the logits.

Deep blocks see products of inputs; with little data the plain sums must not have to pass through them.
Legend: B rows, K objectives, S surfaces, F dense inputs, E event numbers, T events kept.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from gem_pipeline.batches.batch import Batch
from gem_pipeline.batches.layout import InputLayout
from gem_pipeline.kernels.jagged import offsets_to_lengths
from gem_pipeline.models.embeddings import FeatureEmbeddings, mean_by_segment, newest_events

INIT_STD = 0.01
HISTORY_SCALE = 4.0  # the mean over a history moves less than a single id: it is given more weight
LENGTH_SCALE = 4.0  # log1p of the history's length is divided by this
SURFACE_SCALE = 0.3  # per-surface slopes learn slower than the shared ones: a smaller surface has less data


class HistoryStatistics(nn.Module):
    """Mean of the event numbers over the newest events of a row, and the log of how many there are.

    Softmax attention averages as well, but only after it has learned to; these two say it from the first step.
    """

    def forward(self, event_dense_TE: Tensor, offsets_B1: Tensor) -> Tensor:
        """Event numbers [T, E] of rows [B + 1] -> [B, E + 1]; zeros where there is no history."""
        length_B = offsets_to_lengths(offsets_B1)
        mean_BE = mean_by_segment(event_dense_TE, length_B)
        return torch.cat([mean_BE, torch.log1p(length_B.to(mean_BE.dtype))[:, None] / LENGTH_SCALE], dim=1)


class FirstOrderTerms(nn.Module):
    """Logits that are linear in the inputs: ids, numbers (with a slope of their own a surface), recent events.

    Source: the wide part of Wide & Deep, Cheng et al., arXiv 1606.07792; the slope a surface follows STAR,
    arXiv 2101.11427, section 3.2.
    """

    def __init__(self, layout: InputLayout, num_numbers: int, history: int) -> None:
        super().__init__()
        num_objectives, num_surfaces = len(layout.objectives), len(layout.surfaces)
        self.layout, self.history, self.num_objectives = layout, history, num_objectives
        width = max(4, -(-num_objectives // 4) * 4)  # fused embedding kernels want multiples of 4
        self.ids = FeatureEmbeddings(layout, width, init_std=INIT_STD)
        self.slope = nn.Linear(num_numbers, num_objectives, bias=False)
        self.surface_slope_SFK = nn.Parameter(torch.zeros(num_surfaces, num_numbers, num_objectives))
        nn.init.zeros_(self.slope.weight)

    def forward(self, batch: Batch, number_BF: Tensor) -> Tensor:
        """A batch and its normalised numbers [B, F] -> logits [B, K]."""
        ids, _ = newest_events(batch.ids, self.layout, self.history)
        embedded = self.ids(ids)
        event_TK = torch.stack(embedded.event_TD).sum(dim=0)
        recent_BK = HISTORY_SCALE * mean_by_segment(event_TK, offsets_to_lengths(embedded.offsets_B1))
        id_BK = (embedded.token_BND.sum(dim=1) + recent_BK)[:, : self.num_objectives]
        surface_FK = self.surface_slope_SFK[batch.surface_B]
        surface_BK = torch.bmm(number_BF[:, None, :], surface_FK).squeeze(1)
        return id_BK + self.slope(number_BF) + SURFACE_SCALE * surface_BK
