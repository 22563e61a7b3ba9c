"""A batch with shared histories is the batch without, said in fewer words; the foundation model agrees."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gem_pipeline.batches.batch import Batch
from gem_pipeline.batches.encoded_day import EncodedDay
from gem_pipeline.batches.layout import EVENT_AD, InputLayout
from gem_pipeline.batches.reader import DayReader
from gem_pipeline.batches.sharing import expand_histories
from gem_pipeline.batches.windows import EventGroup, WindowSpec
from gem_pipeline.models.flops import forward_flops
from gem_pipeline.models.foundation import FoundationModel
from gem_pipeline.models.foundation_config import BACKBONES, FoundationConfig
from gem_pipeline.models.interaction import INTERACTIONS
from gem_pipeline.models.kunlun import KunlunSettings
from gem_pipeline.models.near_attention import NearConfig
from gem_pipeline.models.pooling import SeedPoolingConfig
from gem_pipeline.models.pyramid import BranchConfig, PyramidConfig
from gem_pipeline.models.vertical import VerticalConfig, VerticalModel
from tests.lake_factory import DAYS, contract, make_lake

TINY = FoundationConfig()
GROUPED = WindowSpec(
    max_events=10, groups=(EventGroup(max_events=6), EventGroup(max_events=5, kinds=contract().sequence.kinds[1:2]))
)


@pytest.fixture(scope="module")
def parts(tmp_path_factory):
    home = tmp_path_factory.mktemp("lake")
    make_lake(home)
    specs = (WindowSpec(max_events=24), GROUPED)
    return [next(DayReader(contract(), home / "lake", window=spec).day(DAYS[2])) for spec in specs]


@settings(max_examples=40)
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


def full_model(layout: InputLayout, backbone: str, **change) -> FoundationModel:
    """A model with every block that reads events."""
    torch.manual_seed(0)
    branches = (
        BranchConfig(group="all", newest=8, dim=8, heads=2, reach=4),
        BranchConfig(group="acted", newest=30, dim=4, heads=1, reach=4),
    )
    config = FoundationConfig(
        dim=8, layers=3, rank=2, fmb_tokens=3, lcb_tokens=3, fmb_hidden=(6,), num_summary=3, event_mask=4,
        representation_dim=6, first_order_history=5, statistics_windows=(3,), match_windows=(2, 9), backbone=backbone,
        cross_layer=True,
        pyramid=PyramidConfig(branches=branches, tokens=(4, 2)),
        kunlun=KunlunSettings(pool=SeedPoolingConfig(seeds=6, tokens=2, rank=2), near=NearConfig(reach=4)),
    )  # fmt: skip
    return FoundationModel(layout, replace(config, **change))


def pair(part: EncodedDay, rows: list[int], dtype: torch.dtype) -> tuple[Batch, Batch]:
    """The same examples without and with sharing; those of a request differ in ad, numbers and surface."""
    generator = torch.Generator().manual_seed(len(rows))
    dense_BF = torch.randn(len(rows), len(part.layout.dense), generator=generator).to(dtype)
    surface_B = torch.randint(0, len(part.layout.surfaces), (len(rows),), generator=generator)
    both = (part.batch(np.array(rows), share=share) for share in (False, True))
    plain, shared = (
        replace(b, dense_BF=dense_BF, surface_B=surface_B, event_dense_TE=b.event_dense_TE.to(dtype)) for b in both
    )
    return plain, shared


def outcome(model: FoundationModel, batch: Batch) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """Logits beside representation, and the gradient of every parameter."""
    model.zero_grad()
    output = model(batch)
    (output.logit_BK.square().sum() + output.representation_BD.sin().sum()).backward()
    said = torch.cat([output.logit_BK, output.representation_BD], dim=1).detach()
    return said, {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


@pytest.mark.parametrize(
    "change",
    [
        *({"backbone": name} for name in BACKBONES),
        *({"backbone": name, "separate": True} for name in ("kunlun", "interformer")),
        *({"backbone": name, "one_directional": True} for name in ("kunlun", "interformer", "hstu")),
        *({"backbone": "kunlun", "interaction": name} for name in INTERACTIONS),
        {"backbone": "kunlun", "surfaces_alike": True, "first_order_history": 0},
        {"backbone": "kunlun", "history": WindowSpec(max_events=7), "matched_events": 24, "pair_rows": 64},
    ],
    ids=str,
)
def test_shared_computation_scores_and_learns_what_separate_computation_does(parts, change):
    model = full_model(parts[0].layout, **change).double()

    @settings(max_examples=6)
    @given(data=st.data(), grouped=st.booleans())
    def equal(data, grouped):
        part = parts[grouped]
        asked = data.draw(st.lists(st.integers(0, part.size - 1), min_size=1, max_size=8))
        rows = data.draw(st.lists(st.sampled_from(asked), min_size=1, max_size=16))  # several of a request
        plain, shared = (outcome(model, batch) for batch in pair(part, rows, torch.float64))
        torch.testing.assert_close(shared[0], plain[0], rtol=0, atol=1e-10)
        assert shared[1].keys() == plain[1].keys()
        for name, gradient in plain[1].items():
            bound = 1e-6 if ".collection." in name else 1e-10  # TorchRec hands table gradients over in single precision
            torch.testing.assert_close(shared[1][name], gradient, rtol=bound, atol=bound, msg=name)

    equal()


@pytest.mark.parametrize("model_of", [partial(full_model, backbone="kunlun"), partial(FoundationModel, config=TINY)])
def test_in_single_precision_shared_scores_are_equal_to_a_millionth(parts, model_of):
    torch.manual_seed(0)
    model, rows = model_of(parts[0].layout), np.random.default_rng(1).integers(0, parts[0].size, 48).repeat(2)
    plain, shared = (outcome(model, batch) for batch in pair(parts[0], rows.tolist(), torch.float32))
    torch.testing.assert_close(shared[0], plain[0], rtol=1e-6, atol=1e-6)
    for name, gradient in plain[1].items():
        scale = max(1.0, float(gradient.abs().max()))
        torch.testing.assert_close(shared[1][name] / scale, gradient / scale, rtol=0, atol=1e-5, msg=name)


def test_the_sequence_side_runs_once_a_request_as_far_as_no_context_enters(parts):
    rows = np.arange(20).repeat(4)
    batch = parts[0].batch(rows, share=True)
    plain = expand_histories(batch, parts[0].layout)
    saved = {}
    for backbone in BACKBONES:
        for one_way in (False, True):
            model = full_model(parts[0].layout, backbone, one_directional=one_way).eval().requires_grad_(False)
            saved[backbone, one_way] = 1.0 - forward_flops(model, batch) / forward_flops(model, plain)
    assert saved["hstu", False] > saved["kunlun", False] > saved["interformer", False] > 0.0
    assert saved["kunlun", True] > saved["kunlun", False]
    assert saved["interformer", True] > saved["interformer", False]


def test_a_vertical_model_scores_a_shared_batch_alike(parts):
    rows = np.arange(parts[0].size)
    rows = np.concatenate([rows, rows[:50]])
    model = VerticalModel(parts[0].layout, VerticalConfig()).eval()
    assert torch.equal(model(parts[0].batch(rows, share=True)).logit_B, model(parts[0].batch(rows)).logit_B)


def test_a_shared_batch_moves_as_a_whole(parts):
    moved = parts[0].batch(np.arange(5), share=True).to(torch.device("meta"))
    assert moved.shared is not None
    assert {t.device.type for t in vars(moved.shared).values()} == {"meta"}
