"""What the history says of the very ad, advertiser or category at hand: its events that carry an id of the example.

Attention finds such events only after it has learned that two vectors are the same; equal ids say so from the first
step, and over thousands of events (hard search by category: Pi et al., SIM, arXiv 2006.05639, section 3.2; counts,
means and recency instead of a second attention are ours). Events whose vectors look like the example's match as well
(`SimilarEvents`). Nothing here has a parameter or a gradient.

Legend: B rows, R requests, T events of the whole batch, E event numbers, A features in which an event can match the
example (ids that both carry, and vectors), W windows, P pairs of an event and a feature in which it matches.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torchrec.sparse.jagged_tensor import JaggedTensor

from gem_pipeline.batches.batch import Batch
from gem_pipeline.batches.layout import InputLayout
from gem_pipeline.kernels.jagged import age_of_element, lengths_to_offsets, row_of_element
from gem_pipeline.models.backbone import example_rows
from gem_pipeline.models.similar import UNKNOWN, SimilarEvents

COUNT_SCALE = 4.0  # log1p of a count is divided by this
PRIOR_EVENTS = 1.0  # added to the count a mean is taken over: one match says less than ten
LONGEST_LOG_GAP = 2.0  # in units of the first event number: exp(8 x 2) s, 103 days; an older match has recency 0
MISSING = 0  # the id of a missing value, which matches nothing


class MatchedHistory(nn.Module):
    """Of the events that match the example in a feature: how many, the means of their numbers, how recent the newest.

    For each shared feature, each window of newest events and the whole history log1p(count) / 4, sum of each number /
    (count + 1), and 1 - log gap / 2 of the newest match, at least 0; zeros where nothing matches. And once
    log1p(events) / 4 of the whole history: less it, the log of a count is that of a share.
    """

    def __init__(self, layout: InputLayout, windows: tuple[int, ...], similar_share: float = 0.0) -> None:
        super().__init__()
        self.windows, self.event = windows, layout.event_ids[0].name
        self.names = tuple((token.name, event.name) for token, event in layout.carried if token.table == event.table)
        alike = bool(similar_share and layout.event_vectors)
        self.similar = SimilarEvents(layout, similar_share) if alike else None
        self.num_features = len(self.names) + (len(self.similar.names) if self.similar is not None else 0)
        self.num_numbers = self.num_features * (len(windows) + 1) * (len(layout.event_dense) + 1) + 1

    @torch.no_grad()
    def fit(self, batch: Batch) -> None:
        """Fix from which cosine on events count as alike, where that is not known yet, by the pairs of a batch."""
        if self.similar is None or not (self.similar.bound_V >= UNKNOWN).any():
            return
        _, stored_T, row_T, _ = _seen(batch, batch.window_lengths(batch.ids[self.event].lengths()))
        self.similar.fit(self.similar.cosines(batch, stored_T, row_T))

    @torch.no_grad()
    def forward(self, batch: Batch) -> Tensor:
        """A batch as it was read, with all events that are counted: numbers [U, E] -> [B, A (W + 1) (E + 1) + 1]."""
        event_dense_TE = batch.window_numbers()
        parts = batch.ids.to_dict()
        length_R = batch.window_lengths(parts[self.event].lengths())
        length_B1 = batch.spread_requests(torch.log1p(length_R.to(event_dense_TE.dtype))[:, None] / COUNT_SCALE)
        if not self.num_features:
            return length_B1
        place_T, stored_T, row_T, offsets_B1 = _seen(batch, length_R)
        same_TA = [
            parts[event].values().index_select(0, stored_T) == _only_id(parts[token]).index_select(0, row_T)
            for token, event in self.names
        ]
        if self.similar is not None:
            same_TA += self.similar(batch, stored_T, row_T).unbind(dim=1)
        element_P, feature_P = torch.nonzero(torch.stack(same_TA, dim=1)).unbind(dim=1)
        segment_P = row_T.index_select(0, element_P) * self.num_features + feature_P
        age_P = age_of_element(offsets_B1, row_T).index_select(0, element_P)
        number_PE = event_dense_TE.index_select(0, place_T.index_select(0, element_P))
        recent_P = (1.0 - number_PE[:, 0] / LONGEST_LOG_GAP).clamp(min=0.0)
        summed_PE = torch.cat([torch.ones_like(number_PE[:, :1]), number_PE[:, 1:]], dim=1)
        num_segments = batch.size * self.num_features
        found = [
            _told(segment_P[kept_P], summed_PE[kept_P], recent_P[kept_P], num_segments)
            for kept_P in (age_P < window for window in self.windows)
        ]
        found.append(_told(segment_P, summed_PE, recent_P, num_segments))
        told_BM = torch.stack([f.view(batch.size, self.num_features, -1) for f in found], dim=2).flatten(1)
        return torch.cat([told_BM, length_B1], dim=1)


def _seen(batch: Batch, length_R: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Events of every example's window: places among those of all windows and among the stored, rows [T]; offsets."""
    offsets_B1 = lengths_to_offsets(length_R)
    place_T = torch.arange(int(offsets_B1[-1]), device=offsets_B1.device)
    if batch.requests is not None:
        place_T, offsets_B1 = example_rows(offsets_B1, batch.requests)
    stored_T = place_T if batch.shared is None else batch.shared.index_T.index_select(0, place_T)
    return place_T, stored_T, row_of_element(offsets_B1, place_T.shape[0]), offsets_B1


def _told(segment_P: Tensor, summed_PE: Tensor, recent_P: Tensor, num_segments: int) -> Tensor:
    """Segments of matches, [1 || numbers] of each [P, E] and its recency [P] -> [segments, E + 1]."""
    sum_SE = summed_PE.new_zeros(num_segments, summed_PE.shape[1]).index_add(0, segment_P, summed_PE)
    count_S1 = sum_SE[:, :1]
    newest_S = recent_P.new_zeros(num_segments).scatter_reduce(0, segment_P, recent_P, "amax")
    mean_SE = sum_SE[:, 1:] / (count_S1 + PRIOR_EVENTS)
    return torch.cat([torch.log1p(count_S1) / COUNT_SCALE, mean_SE, newest_S[:, None]], dim=1)


def _only_id(ids: JaggedTensor) -> Tensor:
    """The first id of each row, int64 [B]; -1, which no event carries, where it is missing."""
    offsets_B1 = lengths_to_offsets(ids.lengths())
    padded_V = torch.cat([ids.values(), ids.values().new_full((1,), MISSING)])
    id_B = padded_V.index_select(0, offsets_B1[:-1])
    return id_B.where((ids.lengths() > 0) & (id_B != MISSING), -1)
