"""A batch with shared histories is the batch without, said in fewer words; the foundation model agrees."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gem_pipeline.batches.layout import EVENT_AD
from gem_pipeline.batches.reader import DayReader
from gem_pipeline.batches.sharing import expand_histories
from gem_pipeline.batches.windows import EventGroup, WindowSpec
from gem_pipeline.models.foundation import FoundationConfig, FoundationModel
from gem_pipeline.models.vertical import VerticalConfig, VerticalModel
from tests.lake_factory import DAYS, contract, make_lake

GROUPED = WindowSpec(
    max_events=10, groups=(EventGroup(max_events=6), EventGroup(max_events=5, kinds=contract().sequence.kinds[1:2]))
)


@pytest.fixture(scope="module")
def parts(tmp_path_factory):
    home = tmp_path_factory.mktemp("lake")
    make_lake(home)
    specs = (WindowSpec(max_events=24), GROUPED)
    return [next(DayReader(contract(), home / "lake", window=spec).day(DAYS[2])) for spec in specs]


@settings(max_examples=40, deadline=None)
@given(data=st.data(), grouped=st.booleans())
def test_an_expanded_batch_equals_the_one_built_without_sharing_bit_by_bit(parts, data, grouped):
    part = parts[grouped]
    rows = np.array(data.draw(st.lists(st.integers(0, part.size - 1), min_size=1, max_size=30)))
    shared, plain = part.batch(rows, share=True), part.batch(rows)
    expanded = expand_histories(shared, part.layout)
    assert shared.ids[EVENT_AD].values().numel() <= plain.ids[EVENT_AD].values().numel()
    assert torch.equal(expanded.ids.values(), plain.ids.values())
    assert torch.equal(expanded.ids.lengths(), plain.ids.lengths())
    assert torch.equal(expanded.event_dense_TE, plain.event_dense_TE)
    assert expanded.shared is None


def test_a_batch_without_sharing_is_returned_as_it_is(parts):
    batch = parts[0].batch(np.arange(5))
    assert expand_histories(batch, parts[0].layout) is batch


@pytest.mark.parametrize("grouped", [False, True])
def test_the_foundation_model_scores_a_shared_batch_bit_by_bit_alike_and_learns_the_same(parts, grouped):
    part, rows = parts[grouped], np.random.default_rng(1).permutation(parts[grouped].size)[:48]
    torch.manual_seed(0)
    model = FoundationModel(part.layout, FoundationConfig())
    gradients = []
    outputs = []
    for share in (False, True):
        batch = part.batch(rows, share=share)
        model.zero_grad()
        output = model(batch)
        (output.logit_BK.square().sum() + output.representation_BD.sum()).backward()
        outputs.append(output.logit_BK.detach())
        gradients.append({name: p.grad.clone() for name, p in model.named_parameters()})
    assert torch.equal(*outputs)
    for name, gradient in gradients[0].items():
        torch.testing.assert_close(gradients[1][name], gradient, rtol=1e-4, atol=1e-5, msg=name)


def test_a_vertical_model_scores_a_shared_batch_alike(parts):
    rows = np.arange(parts[0].size)
    model = VerticalModel(parts[0].layout, VerticalConfig()).eval()
    assert torch.equal(model(parts[0].batch(rows, share=True)).logit_B, model(parts[0].batch(rows)).logit_B)


def test_a_shared_batch_moves_as_a_whole(parts):
    moved = parts[0].batch(np.arange(5), share=True).to(torch.device("meta"))
    assert moved.shared is not None
    assert {moved.shared.index_T.device.type, moved.shared.log_gap_T.device.type} == {"meta"}
