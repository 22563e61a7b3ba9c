"""Masked losses, divergence, and scoring that reads no label."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import binary_cross_entropy_with_logits

from gem_pipeline.errors import DivergenceError
from gem_pipeline.models.foundation import FoundationModel
from gem_pipeline.models.foundation_config import FoundationConfig
from gem_pipeline.training.loop import LossCurve, joint_loss, learn, masked_bce, score
from gem_pipeline.training.optimizer import ModelOptimizer
from gem_pipeline.training.settings import TrainConfig
from tests.batches_factory import random_batch, small_layout

CONFIG = TrainConfig(batch_size=8, dense_lr=1e-3, embedding_lr=0.01)


@settings(max_examples=50)
@given(num=st.integers(1, 6), seed=st.integers(0, 100))
def test_the_loss_is_the_sum_of_means_over_present_labels(num, seed):
    generator = torch.Generator().manual_seed(seed)
    logit, target = torch.randn(num, 3, generator=generator), torch.rand(num, 3, generator=generator)
    mask = torch.rand(num, 3, generator=generator) < 0.5
    expected = torch.zeros(())
    for k in range(3):
        if mask[:, k].any():
            expected += binary_cross_entropy_with_logits(logit[mask[:, k], k], target[mask[:, k], k])
    assert torch.allclose(masked_bce(logit, target, mask), expected, atol=1e-6)


def test_masked_labels_send_no_gradient():
    logit = torch.zeros(2, 2, requires_grad=True)
    mask = torch.tensor([[True, False], [False, False]])
    masked_bce(logit, torch.ones(2, 2), mask).backward()
    assert logit.grad is not None
    assert (logit.grad != 0).tolist() == mask.tolist()


def small_model() -> FoundationModel:
    torch.manual_seed(0)
    return FoundationModel(small_layout(), FoundationConfig(dim=8, layers=1, heads=2))


def test_learning_lowers_the_loss_of_a_batch():
    model = small_model()
    batch = random_batch(small_layout(), [3, 0, 5, 1] * 8)
    curve = LossCurve()
    learn(model, ModelOptimizer(model, CONFIG), [batch] * 30, joint_loss, curve)
    assert curve.losses[-1] < 0.8 * curve.losses[0]
    assert curve.num_examples == 30 * 32


def test_an_exploding_loss_stops_with_the_step_and_the_examples_named():
    model = small_model()
    batch = random_batch(small_layout(), [2, 2])
    poisoned = replace(batch, dense_BF=torch.full_like(batch.dense_BF, float("nan")))
    with pytest.raises(DivergenceError, match=r"step 1 \(examples 0 \.\.\. 1"):
        learn(model, ModelOptimizer(model, CONFIG), [batch, poisoned], joint_loss, LossCurve())


def test_scores_do_not_depend_on_labels_or_on_how_rows_are_batched():
    model = small_model()
    batch = random_batch(small_layout(), [3, 0, 5, 1])
    flipped = replace(batch, label_BK=1 - batch.label_BK)
    once = score(model, [batch])
    assert (score(model, [flipped]).prob_NK == once.prob_NK).all()
    twice = score(model, [batch, batch])
    assert twice.prob_NK.shape == (8, 2)
    assert (twice.prob_NK[4:] == once.prob_NK).all()
    assert not model.training
