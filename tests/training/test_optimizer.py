"""The optimiser's state resumes bit by bit, and rates follow warm-up and the day's fall."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from gem_pipeline.batches.windows import WindowSpec
from gem_pipeline.models.vertical import VerticalConfig, VerticalModel
from gem_pipeline.training.optimizer import ModelOptimizer, split_parameters
from gem_pipeline.training.settings import TrainConfig
from tests.batches_factory import random_batch, small_layout

CONFIG = TrainConfig(batch_size=8, dense_lr=1e-2, embedding_lr=0.1, warmup_steps=3, weight_decay=0.1, final_rate=0.1)


def new_model() -> VerticalModel:
    torch.manual_seed(0)
    return VerticalModel(small_layout(), VerticalConfig(dim=4, history=WindowSpec(max_events=4), hidden=(8,)))


def steps(model, optimizer, first, last):
    for seed in range(first, last):
        batch = random_batch(small_layout(), [3, 0, 5, 1], seed=seed)
        output = model(batch)
        optimizer.step((output.logit_B - batch.label_BK[:, 0]).square().mean() + output.distill_logit_B.square().mean())


@pytest.mark.parametrize("horizon", [0, 3])
def test_training_cut_in_two_equals_training_in_one_go(horizon):
    # Within a day nothing is resumed: its rates depend on its length.
    config = replace(CONFIG, final_rate=1.0, averaging_horizon=horizon)
    whole = new_model()
    optimizer = ModelOptimizer(whole, config)
    steps(whole, optimizer, 0, 8)
    half = new_model()
    first = ModelOptimizer(half, config)
    steps(half, first, 0, 4)
    resumed = new_model()
    resumed.load_state_dict(first.served_weights())
    second = ModelOptimizer(resumed, config)
    second.load_state(first.state())
    steps(resumed, second, 4, 8)
    for name, value in whole.state_dict().items():
        assert torch.equal(value, resumed.state_dict()[name]), name
        assert torch.equal(optimizer.served_weights()[name], second.served_weights()[name]), name


def test_served_weights_are_the_running_average_of_the_newest_ones():
    model = new_model()
    optimizer = ModelOptimizer(model, replace(CONFIG, averaging_horizon=2))
    expected = {name: p.detach().clone() for name, p in model.named_parameters()}
    for step in range(1, 16):
        steps(model, optimizer, step, step + 1)
        share = 1 / min(1 + step / 10, 2)
        for name, p in model.named_parameters():
            expected[name] = expected[name] + share * (p.detach() - expected[name])
    served = optimizer.served_weights()
    assert all(torch.allclose(served[name], value, atol=1e-6) for name, value in expected.items())
    assert not torch.equal(served["trunk.0.weight"], model.state_dict()["trunk.0.weight"])


def test_every_parameter_belongs_to_exactly_one_side():
    model = new_model()
    embedding, dense = split_parameters(model)
    assert set(embedding) | set(dense) == {name for name, _ in model.named_parameters()}
    assert not set(embedding) & set(dense)
    assert all("embedding" in name for name in embedding)


def test_rates_warm_up_and_then_fall_over_the_day():
    model = new_model()
    optimizer = ModelOptimizer(model, CONFIG)
    optimizer.begin_day(10)
    rates = []
    for seed in range(10):
        steps(model, optimizer, seed, seed + 1)
        rates.append(optimizer._optimizers["dense"].param_groups[0]["lr"] / CONFIG.dense_lr)
    assert rates[0] == pytest.approx(1 / 3)
    assert rates.index(max(rates)) == 2
    assert rates[-1] == pytest.approx(1 - 0.9 * 0.9)
    optimizer.begin_day(10)
    steps(model, optimizer, 0, 1)
    assert optimizer._optimizers["dense"].param_groups[0]["lr"] == pytest.approx(CONFIG.dense_lr)


def test_ids_that_do_not_occur_keep_their_rows():
    model = new_model()
    before = {name: p.clone() for name, p in split_parameters(model)[0].items()}
    steps(model, ModelOptimizer(model, CONFIG), 0, 1)
    after = split_parameters(model)[0]
    changed = sum(int((after[name] != before[name]).any(dim=1).sum()) for name in before)
    total = sum(len(value) for value in before.values())
    assert 0 < changed < total


def test_weights_that_are_overwritten_move_their_average_by_as_much():
    config = replace(CONFIG, averaging_horizon=5)
    model = new_model()
    optimizer = ModelOptimizer(model, config)
    steps(model, optimizer, 0, 3)
    newest, served = model.serving_head.bias.detach().clone(), optimizer.served_weights()
    assert not torch.equal(served["serving_head.bias"], newest)
    before = {name: weight.clone() for name, weight in served.items()}
    optimizer.reset(lambda: model.init_bias(0.2))
    after, moved = optimizer.served_weights(), model.serving_head.bias.detach() - newest
    torch.testing.assert_close(after["serving_head.bias"], before["serving_head.bias"] + moved)
    same = [name for name in before if not name.endswith("head.bias")]
    assert all(torch.equal(after[name], before[name]) for name in same)


def test_a_row_that_begins_anew_is_that_of_unknown_ids_without_a_past():
    model = new_model()
    optimizer = ModelOptimizer(model, replace(CONFIG, averaging_horizon=5))
    steps(model, optimizer, 0, 3)
    name = "embeddings.collection.embeddings.ad.weight"
    other = optimizer.state()[f"embedding/{name.replace('.ad.', '.place.')}/sum"]
    rows = torch.tensor([3, 7])
    optimizer.restart_rows({"ad": rows, "content": rows[:0]})
    for weights in (model.state_dict(), optimizer.served_weights()):
        assert torch.equal(weights[name][rows], weights[name][-1].expand(2, -1))
    assert not optimizer.state()[f"embedding/{name}/sum"][rows].any()
    assert torch.equal(optimizer.state()[f"embedding/{name.replace('.ad.', '.place.')}/sum"], other)
