"""First-order terms are linear, read recent events only, and equal their equation."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from gem_pipeline.kernels.jagged import lengths_to_offsets
from gem_pipeline.models.first_order import (
    HISTORY_SCALE,
    LENGTH_SCALE,
    SURFACE_SCALE,
    FirstOrderTerms,
    HistoryStatistics,
)
from tests.batches_factory import random_batch, small_layout

LENGTHS = [3, 0, 5, 1]


@pytest.fixture
def terms():
    torch.manual_seed(0)
    module = FirstOrderTerms(small_layout(), num_numbers=3, history=2)
    torch.nn.init.normal_(module.slope.weight)
    torch.nn.init.normal_(module.surface_slope_SFK)
    return module


def test_logits_equal_the_sum_written_out_row_by_row(terms):
    layout, batch = small_layout(), random_batch(small_layout(), LENGTHS)
    tables = {name.split(".")[-2]: p for name, p in terms.ids.named_parameters()}
    found = terms(batch, batch.dense_BF)
    for row in range(batch.size):
        expected = terms.slope.weight @ batch.dense_BF[row]
        expected = expected + SURFACE_SCALE * batch.dense_BF[row] @ terms.surface_slope_SFK[batch.surface_B[row]]
        for feature in (*layout.tokens, *layout.event_ids):
            lengths = batch.ids[feature.name].lengths().tolist()
            ids = torch.split(batch.ids[feature.name].values(), lengths)[row]
            event = feature in layout.event_ids
            ids = ids[-2:] if event else ids
            if len(ids):
                scale = HISTORY_SCALE if event else 1.0
                expected = expected + scale * tables[feature.table][ids].mean(dim=0)[: len(layout.objectives)]
        assert torch.allclose(found[row], expected, atol=1e-5)


def test_older_events_than_the_window_change_nothing(terms):
    batch = random_batch(small_layout(), [5])
    values = batch.ids.values().clone()
    keys = list(batch.ids.keys())
    start = int(batch.ids.offset_per_key()[keys.index("event_ad")])
    values[start : start + 3] = (values[start : start + 3] + 1) % 50
    changed = replace(batch, ids=type(batch.ids)(keys=keys, values=values, lengths=batch.ids.lengths()))
    assert torch.equal(terms(batch, batch.dense_BF), terms(changed, batch.dense_BF))


def test_statistics_are_means_over_each_window_and_zero_without_history():
    event_TE = torch.arange(18.0).reshape(9, 2)
    offsets = lengths_to_offsets(torch.tensor(LENGTHS))
    found = HistoryStatistics((1, 4), 2)(event_TE, offsets)
    rows = torch.split(event_TE, LENGTHS)
    for row, events in enumerate(rows):
        expected = [events[-w:].mean(dim=0) if len(events) else torch.zeros(2) for w in (1, 4)]
        length = torch.log1p(torch.tensor([float(len(events))])) / LENGTH_SCALE
        assert torch.allclose(found[row], torch.cat([*expected, length]))
