"""A batch cut to the newest events of each window, before anything is looked up (ours).

Legend: U stored events, T events of all windows, R windows, B rows.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor
from torchrec.sparse.jagged_tensor import KeyedJaggedTensor

from gem_pipeline.batches.batch import Batch, chosen_events
from gem_pipeline.batches.layout import InputLayout
from gem_pipeline.kernels.jagged import lengths_to_offsets, newest_index, offsets_to_lengths, row_of_element
from gem_pipeline.models.embeddings import newest_events


def newest_windows(batch: Batch, layout: InputLayout, num_kept: int) -> Batch:
    """Keep the newest events of each window; of shared histories, stored events that no window holds any more go too.

    Args:
        batch: with or without shared histories.
        layout: names the event features.
        num_kept: events kept a window, at most.
    """
    shared = batch.shared
    if shared is None:
        ids, kept = newest_events(batch.ids, layout, num_kept)
        return _with_events(batch, ids, kept)
    kept, kept_R1 = newest_index(lengths_to_offsets(shared.length_R), num_kept, shared.index_T.shape[0])
    index_T = shared.index_T.index_select(0, kept)
    used_U = torch.zeros_like(batch.event_dense_TE[:, 0], dtype=torch.bool).index_fill(0, index_T, True)
    stored = torch.nonzero(used_U).flatten()
    ids = chosen_events(batch.ids, layout, stored, _stored_lengths(batch, layout, used_U))
    fewer = replace(
        shared,
        index_T=(torch.cumsum(used_U, 0) - 1).index_select(0, index_T),
        length_R=offsets_to_lengths(kept_R1),
        log_gap_T=shared.log_gap_T.index_select(0, kept),
    )
    return replace(_with_events(batch, ids, stored), shared=fewer)


def _with_events(batch: Batch, ids: KeyedJaggedTensor, kept: Tensor) -> Batch:
    """The batch with other ids and some of its events."""
    vectors = None if batch.event_vectors is None else batch.event_vectors.take(kept)
    numbers_KE = batch.event_dense_TE.index_select(0, kept)
    return replace(batch, ids=ids, event_dense_TE=numbers_KE, event_vectors=vectors)


def _stored_lengths(batch: Batch, layout: InputLayout, used_U: Tensor) -> Tensor:
    """How many of the stored events that are still used each row holds, [B]."""
    length_B = batch.ids[layout.event_ids[0].name].lengths()
    row_U = row_of_element(lengths_to_offsets(length_B), used_U.shape[0])
    return torch.zeros_like(length_B).index_add(0, row_U, used_U.to(length_B.dtype))
