"""Undo the sharing of histories: for models and blocks that read one window a row."""

from __future__ import annotations

from dataclasses import replace

from gem_pipeline.batches.batch import Batch, chosen_events
from gem_pipeline.batches.layout import InputLayout
from gem_pipeline.batches.requests import window_places


def expand_histories(batch: Batch, layout: InputLayout) -> Batch:
    """Give every row its own window: bit by bit the batch that was built without sharing.

    Args:
        batch: with or without shared histories; without, it is returned as it is.
        layout: names the event features.
    """
    if batch.shared is None:
        return batch
    shared = batch.shared
    window_B = shared.length_R.index_select(0, shared.request_B)
    window_index_T = window_places(shared.length_R, shared.request_B, window_B)
    event_index_T = shared.index_T.index_select(0, window_index_T)
    ids = chosen_events(batch.ids, layout, event_index_T, window_B)
    number_TE = batch.window_numbers().index_select(0, window_index_T)
    own = None if batch.event_vectors is None else batch.event_vectors.take(event_index_T)
    return replace(batch, ids=ids, event_dense_TE=number_TE, shared=None, event_vectors=own)
