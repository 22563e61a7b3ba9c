"""The served head learns from labels only, the auxiliary head from the teacher only."""

from __future__ import annotations

import pytest
import torch

from gem_pipeline.batches.windows import WindowSpec
from gem_pipeline.errors import ConfigError
from gem_pipeline.models.vertical import VerticalConfig, VerticalModel
from gem_pipeline.transfer.distillation import DistillationConfig, VerticalLoss, distillation_loss, label_loss
from tests.batches_factory import random_batch, small_layout


@pytest.fixture
def model():
    torch.manual_seed(0)
    return VerticalModel(small_layout(), VerticalConfig(dim=4, history=WindowSpec(max_events=4), hidden=(8,)))


BATCH = random_batch(small_layout(), [3, 0, 5, 1, 2, 2])
TEACHER = torch.rand(6, 2, generator=torch.Generator().manual_seed(1))


def gradient(module, loss):
    module.zero_grad()
    loss.backward()
    return [0.0 if p.grad is None else float(p.grad.abs().sum()) for p in module.parameters()]


def test_the_teacher_never_reaches_the_served_head_and_the_label_never_the_auxiliary_head(model):
    output = model(BATCH)
    model.zero_grad()
    distillation_loss(output.distill_logit_B, TEACHER[:, 0], BATCH, 0).backward()
    assert model.serving_head.weight.grad is None
    assert model.distill_head.weight.grad.abs().sum() > 0
    model.zero_grad()
    label_loss(model(BATCH).logit_B, BATCH, 0).backward()
    assert model.distill_head.weight.grad is None
    assert model.trunk[0].weight.grad.abs().sum() > 0


def test_distillation_is_smallest_at_the_teacher_and_sends_it_no_gradient():
    prob = TEACHER[:, 0].clone().requires_grad_()
    logit = torch.logit(TEACHER[:, 0]).requires_grad_()
    loss = distillation_loss(logit, prob, BATCH, 0)
    loss.backward()
    assert prob.grad is None
    assert torch.allclose(logit.grad, torch.zeros(6), atol=1e-7)
    worse = distillation_loss(logit.detach() + 0.5, prob, BATCH, 0)
    assert worse > loss


def test_weight_zero_equals_no_teacher(model):
    alone = VerticalLoss(0, None, DistillationConfig())(model, BATCH)
    ignored = VerticalLoss(0, TEACHER, DistillationConfig(weight=0.0))(model, BATCH)
    taught = VerticalLoss(0, TEACHER, DistillationConfig(weight=2.0))(model, BATCH)
    assert torch.equal(alone, ignored)
    assert taught > alone


def test_a_negative_weight_is_refused():
    with pytest.raises(ConfigError):
        DistillationConfig(weight=-1.0)
