"""Vectors become tokens; a missing one is a token of its own, and a layout without vectors costs nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch.nn import functional

from gem_pipeline.batches.layout import InputLayout, VectorFeature
from gem_pipeline.batches.windows import WindowSpec
from gem_pipeline.models.flops import forward_flops
from gem_pipeline.models.foundation import FoundationModel
from gem_pipeline.models.foundation_config import FoundationConfig
from gem_pipeline.models.vectors import VectorTower, VectorTowers, vector_towers
from gem_pipeline.models.vertical import VerticalConfig, VerticalModel
from tests.batches_factory import random_batch, small_layout, take_rows

VECTORS = (VectorFeature(name="image", dim=5), VectorFeature(name="tone", dim=1))
SMALL = FoundationConfig(dim=8, heads=2, rank=3, fmb_tokens=3, lcb_tokens=2, fmb_hidden=(8,), representation_dim=6)
LITTLE = VerticalConfig(dim=4, history=WindowSpec(max_events=2), hidden=(8, 6))
KINDS = pytest.mark.parametrize(("kind", "config"), [(FoundationModel, SMALL), (VerticalModel, LITTLE)])


def layout_with_vectors() -> InputLayout:
    return replace(small_layout(), vectors=VECTORS)


def logits(model, batch):
    output = model(batch)
    return output.logit_BK if isinstance(model, FoundationModel) else output.logit_B[:, None]


def test_a_missing_vector_is_the_learned_token_whatever_its_numbers() -> None:
    tower = VectorTower(3, 4, init_std=0.1)
    present_B = torch.tensor([True, False, False])
    token_BD = tower(torch.randn(3, 3), present_B)
    torch.testing.assert_close(token_BD[1:], tower.missing_D.expand(2, 4))
    assert not torch.allclose(token_BD[0], tower.missing_D)


def test_a_token_knows_direction_and_length_and_zeros_are_finite() -> None:
    tower, value_BV = VectorTower(3, 4, init_std=0.1), torch.randn(1, 3)
    rows = torch.cat([value_BV, 2 * value_BV, -value_BV, torch.zeros(1, 3)]).requires_grad_()
    token_BD = tower(rows, torch.ones(4, dtype=torch.bool))
    assert len({tuple(token.tolist()) for token in token_BD}) == 4
    token_BD.sum().backward()
    assert torch.isfinite(token_BD).all()
    assert all(torch.isfinite(p.grad).all() for p in tower.project.parameters())


def test_a_layout_without_vectors_draws_no_random_number() -> None:
    torch.manual_seed(0)
    before = torch.get_rng_state()
    assert vector_towers((), 8, init_std=0.1) is None
    assert torch.equal(torch.get_rng_state(), before)


@KINDS
def test_every_tower_gets_a_gradient_and_is_counted(kind, config) -> None:
    torch.manual_seed(0)
    model, plain = kind(layout_with_vectors(), config), kind(small_layout(), config)
    assert plain.vectors is None
    assert not [name for name in plain.state_dict() if name.startswith("vectors")]
    batch = random_batch(model.layout, [0, 1, 2, 3] * 8)
    logit_BK = logits(model, batch)
    functional.binary_cross_entropy_with_logits(logit_BK, batch.label_BK[:, : logit_BK.shape[1]]).backward()
    assert isinstance(model.vectors, VectorTowers)
    assert [name for name, p in model.vectors.named_parameters() if p.grad is None or not p.grad.any()] == []
    assert forward_flops(model, batch) > forward_flops(plain, batch)


@KINDS
def test_scores_depend_on_the_own_vectors_only(kind, config) -> None:
    torch.manual_seed(0)
    model = kind(layout_with_vectors(), config).double().eval()
    batch = random_batch(model.layout, [2, 0, 3, 1], dtype=torch.float64)
    together = logits(model, batch)
    torch.testing.assert_close(logits(model, take_rows(batch, model.layout, [2])), together[2:3], rtol=0, atol=1e-10)
    present_BF = batch.vectors.present_BF.clone()
    present_BF[1] = ~present_BF[1]
    changed = logits(model, replace(batch, vectors=replace(batch.vectors, present_BF=present_BF)))
    assert not torch.allclose(changed[1], together[1])
    torch.testing.assert_close(changed[[0, 2, 3]], together[[0, 2, 3]], rtol=0, atol=1e-10)
