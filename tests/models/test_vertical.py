"""Vertical models: small, recent history only, two heads kept apart."""

from __future__ import annotations

import json

import pytest
import torch

from gem_pipeline.batches.windows import WindowSpec
from gem_pipeline.errors import ConfigError
from gem_pipeline.models.vertical import VerticalConfig, VerticalModel
from tests.batches_factory import kuairand_layout, random_batch, small_layout, take_rows


def small_model() -> VerticalModel:
    torch.manual_seed(0)
    return (
        VerticalModel(small_layout(), VerticalConfig(dim=4, history=WindowSpec(max_events=2), hidden=(8, 6)))
        .double()
        .eval()
    )


def test_the_two_heads_share_the_trunk_and_nothing_else() -> None:
    model = small_model()
    batch = random_batch(model.layout, [3, 1], dtype=torch.float64)
    model(batch).logit_B.sum().backward()
    assert model.distill_head.weight.grad is None
    assert model.serving_head.weight.grad is not None
    model.zero_grad()
    model(batch).distill_logit_B.sum().backward()
    assert model.serving_head.weight.grad is None
    assert all(weight.grad.any() for weight in (model.trunk[0].weight, model.distill_head.weight))


def test_both_losses_together_give_every_parameter_of_the_default_model_a_gradient() -> None:
    torch.manual_seed(0)
    model = VerticalModel(kuairand_layout(), VerticalConfig())
    output = model(random_batch(model.layout, [20, 0, 3, 16] * 4))
    (output.logit_B.square().sum() + output.distill_logit_B.square().sum()).backward()
    assert [name for name, p in model.named_parameters() if p.grad is None or not p.grad.any()] == []


def test_events_older_than_the_newest_ones_change_nothing() -> None:
    model = small_model()
    batch = random_batch(model.layout, [4], dtype=torch.float64)
    loud = batch.event_dense_TE.clone()
    loud[:2] += 100.0
    changed = type(batch)(**{**vars(batch), "event_dense_TE": loud})
    assert torch.equal(model(changed).logit_B, model(batch).logit_B)
    loud[2] += 100.0
    assert not torch.equal(model(changed).logit_B, model(batch).logit_B)


def test_a_row_scores_the_same_alone_and_in_a_batch() -> None:
    model = small_model()
    batch = random_batch(model.layout, [3, 0, 5, 1], dtype=torch.float64)
    together = model(batch).logit_B
    for row in range(4):
        alone = model(take_rows(batch, model.layout, [row])).logit_B
        torch.testing.assert_close(alone[0], together[row], rtol=0, atol=1e-10)


def test_a_batch_without_events_is_scored() -> None:
    model = small_model()
    assert torch.isfinite(model(random_batch(model.layout, [0, 0], dtype=torch.float64)).logit_B).all()


def test_both_heads_start_at_the_base_rate() -> None:
    model = VerticalModel(small_layout(), VerticalConfig())
    model.init_bias(0.1)
    output = model(random_batch(model.layout, [2] * 40))
    for logit_B in (output.logit_B, output.distill_logit_B):
        assert torch.sigmoid(logit_B).mean().item() == pytest.approx(0.1, rel=0.2)


def test_weights_and_configuration_survive_a_round_trip() -> None:
    config = VerticalConfig(dim=4, hidden=(8,))
    again = VerticalConfig.from_dict(json.loads(json.dumps(config.to_dict())))
    assert again == config
    model, copy = VerticalModel(small_layout(), config), VerticalModel(small_layout(), again)
    copy.load_state_dict(model.state_dict())
    batch = random_batch(model.layout, [2, 0])
    assert torch.equal(copy(batch).logit_B, model(batch).logit_B)


@pytest.mark.parametrize(
    "change", [{"dim": 0}, {"hidden": ()}, {"dropout": -0.1}, {"embedding_std": 0.0}, {"hidden": (0,)}]
)
def test_an_impossible_shape_is_refused(change: dict[str, int]) -> None:
    with pytest.raises(ConfigError):
        VerticalConfig(**change)
