"""Numbers of matching events equal a count by hand, and nothing matches where an id is missing."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torchrec.sparse.jagged_tensor import KeyedJaggedTensor

from gem_pipeline.models.foundation import FoundationModel
from gem_pipeline.models.foundation_config import FoundationConfig
from gem_pipeline.models.matches import COUNT_SCALE, LONGEST_LOG_GAP, PRIOR_EVENTS, MatchedHistory
from tests.batches_factory import random_batch, small_layout, take_rows

WINDOWS = (2, 5)
FEATURES = (("ad", "event_ad"), ("surface", "event_surface"))


def by_hand(batch, lengths, row):
    """The numbers of one row, event by event."""
    numbers = torch.split(batch.event_dense_TE, lengths)[row]
    told = []
    for token, event in FEATURES:
        here = torch.split(batch.ids[token].values(), batch.ids[token].lengths().tolist())[row].tolist()
        own = torch.split(batch.ids[event].values(), lengths)[row].tolist()
        for window in (*WINDOWS, len(own)):
            first = max(0, len(own) - window)
            found = [numbers[i] for i in range(first, len(own)) if here and here[0] and own[i] == here[0]]
            count = float(len(found))
            mean = sum(float(n[1]) for n in found) / (count + PRIOR_EVENTS)
            newest = max((max(0.0, 1.0 - float(n[0]) / LONGEST_LOG_GAP) for n in found), default=0.0)
            told += [float(torch.log1p(torch.tensor(count))) / COUNT_SCALE, mean, newest]
    told.append(float(torch.log1p(torch.tensor(float(lengths[row])))) / COUNT_SCALE)
    return torch.tensor(told)


def in_few_ids(batch, *, count=4):
    """The batch with ids 0 ... count - 1, so that many events match and many ids, or all, are missing."""
    ids = KeyedJaggedTensor(keys=batch.ids.keys(), values=batch.ids.values() % count, lengths=batch.ids.lengths())
    return replace(batch, ids=ids)


@settings(max_examples=40)
@given(lengths=st.lists(st.integers(0, 9), min_size=1, max_size=6), seed=st.integers(0, 1000))
def test_numbers_equal_those_counted_event_by_event(lengths, seed):
    batch = in_few_ids(random_batch(small_layout(), lengths, seed=seed))
    module = MatchedHistory(small_layout(), WINDOWS)
    found = module(batch)
    assert found.shape == (len(lengths), module.num_numbers)
    for row in range(len(lengths)):
        torch.testing.assert_close(found[row], by_hand(batch, lengths, row), rtol=0, atol=1e-6)


def test_a_row_without_events_or_with_a_missing_id_says_nothing_but_how_many_events_there_are():
    batch = in_few_ids(random_batch(small_layout(), [0, 4]), count=1)
    found = MatchedHistory(small_layout(), WINDOWS)(batch)
    assert not found[:, :-1].any()
    assert not found[0].any()


def test_only_features_of_one_table_on_both_sides_are_compared():
    layout = small_layout()
    apart = replace(layout, event_ids=tuple(replace(f, table="content") for f in layout.event_ids))
    module = MatchedHistory(apart, WINDOWS)
    assert module.names == ()
    batch = random_batch(apart, [3, 1])
    assert module(batch).shape == (2, 1)


@pytest.mark.parametrize("id_tables", ["hashed", "lfu"])
def test_a_model_hears_that_the_history_holds_the_ad_at_hand(id_tables):
    layout = small_layout() if id_tables == "hashed" else small_layout().managed()
    torch.manual_seed(0)
    config = FoundationConfig(dim=8, match_windows=WINDOWS, id_tables=id_tables)
    model, batch = FoundationModel(layout, config), in_few_ids(random_batch(layout, [3, 0, 5]))
    together = model(batch).logit_BK
    together.sum().backward()
    assert together.isfinite().all()
    if id_tables == "hashed":
        alone = model(take_rows(batch, layout, [2])).logit_BK
        torch.testing.assert_close(alone, together[2:], rtol=0, atol=1e-6)
    slope_KF = model.first_order.slope.weight.grad
    assert slope_KF[:, -model.matches.num_numbers :].any()
