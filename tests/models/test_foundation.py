"""The foundation model as a whole: learns everywhere, and a row's score is its own."""

from __future__ import annotations

import functools
import json
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional

from gem_pipeline.batches.layout import InputLayout
from gem_pipeline.models.foundation import FoundationModel
from gem_pipeline.models.foundation_config import FoundationConfig
from tests.batches_factory import kuairand_layout, random_batch, small_layout, take_rows

SMALL = FoundationConfig(dim=8, heads=2, rank=3, fmb_tokens=3, lcb_tokens=2, fmb_hidden=(8,), representation_dim=6)
PLANTED_STEPS = 150


@functools.cache
def small_model() -> FoundationModel:
    torch.manual_seed(0)
    return FoundationModel(small_layout(), SMALL).double().eval()


@functools.cache
def alike_model() -> FoundationModel:
    torch.manual_seed(0)
    return FoundationModel(small_layout(), replace(SMALL, surfaces_alike=True)).double().eval()


def one_step(model: FoundationModel, lengths: list[int]) -> None:
    batch = random_batch(model.layout, lengths)
    logit_BK = model(batch).logit_BK
    loss = functional.binary_cross_entropy_with_logits(logit_BK, batch.label_BK, weight=batch.mask_BK.float())
    loss.backward()


def test_one_step_of_the_default_model_gives_every_parameter_a_gradient() -> None:
    torch.manual_seed(0)
    model = FoundationModel(kuairand_layout(), FoundationConfig())
    one_step(model, [0, 1, 64, 7, 30, 2, 5, 40] * 4)
    silent = [name for name, p in model.named_parameters() if p.grad is None or not p.grad.any()]
    assert silent == []


@settings(max_examples=12)
@given(
    st.lists(st.integers(0, 5), min_size=1, max_size=6),
    st.lists(st.integers(0, 1000), min_size=1, max_size=6),
    st.integers(0, 100),
)
def test_a_row_scores_the_same_alone_in_any_batch_and_in_any_order(
    lengths: list[int], picks: list[int], seed: int
) -> None:
    model, layout = small_model(), small_layout()
    batch = random_batch(layout, lengths, seed=seed, dtype=torch.float64)
    rows = [pick % len(lengths) for pick in picks]
    together, moved = model(batch), model(take_rows(batch, layout, rows))
    torch.testing.assert_close(moved.logit_BK, together.logit_BK[rows], rtol=0, atol=1e-10)
    torch.testing.assert_close(moved.representation_BD, together.representation_BD[rows], rtol=0, atol=1e-10)
    alone = model(take_rows(batch, layout, rows[:1]))
    torch.testing.assert_close(alone.logit_BK[0], together.logit_BK[rows[0]], rtol=0, atol=1e-10)


def test_scores_do_not_depend_on_how_rows_fall_into_length_groups() -> None:
    model, layout = small_model(), small_layout()
    batch = random_batch(layout, [row % 11 for row in range(100)], dtype=torch.float64)
    part = model(take_rows(batch, layout, range(40, 60)))
    torch.testing.assert_close(part.logit_BK, model(batch).logit_BK[40:60], rtol=0, atol=1e-10)


@pytest.mark.parametrize("lengths", [[0], [0, 0, 0]])
def test_a_batch_without_a_single_event_is_scored_and_trained(lengths: list[int]) -> None:
    torch.manual_seed(0)
    model = FoundationModel(small_layout(), SMALL)
    one_step(model, lengths)
    assert all(p.grad is None or torch.isfinite(p.grad).all() for p in model.parameters())
    assert torch.isfinite(model(random_batch(model.layout, lengths)).logit_BK).all()


def test_history_changes_the_score_and_so_does_its_order() -> None:
    model, layout = small_model(), small_layout()
    batch = random_batch(layout, [4, 4], dtype=torch.float64)
    empty = random_batch(layout, [0, 0], dtype=torch.float64)
    assert not torch.allclose(model(batch).logit_BK, model(empty).logit_BK)
    parts = batch.ids.to_dict()
    turned = torch.cat([batch.event_dense_TE[:4].flip(0), batch.event_dense_TE[4:]])
    assert turned.shape[0] == parts["event_ad"].values().shape[0]
    flipped = type(batch)(**{**vars(batch), "event_dense_TE": turned})
    assert not torch.allclose(model(batch).logit_BK[0], model(flipped).logit_BK[0])
    torch.testing.assert_close(model(batch).logit_BK[1], model(flipped).logit_BK[1])


@pytest.mark.parametrize("attentive", [False, True])
def test_weights_and_configuration_survive_a_round_trip(attentive: bool) -> None:
    config = FoundationConfig.from_dict(FoundationConfig(dim=8, attentive_y=attentive, fmb_hidden=(8, 4)).to_dict())
    again = FoundationConfig.from_dict(json.loads(json.dumps(config.to_dict())))
    assert again == config
    layout = small_layout()
    model, copy = FoundationModel(layout, config), FoundationModel(layout, again)
    copy.load_state_dict(model.state_dict())
    batch = random_batch(layout, [3, 0])
    assert torch.equal(copy(batch).logit_BK, model(batch).logit_BK)


def test_size_tiny_stays_what_it_was(golden) -> None:
    torch.manual_seed(0)
    model = FoundationModel(kuairand_layout(), FoundationConfig()).eval()
    golden("tiny_parameters.json", {name: list(p.shape) for name, p in model.named_parameters()})
    logit_BK = model(random_batch(model.layout, [0, 1, 64, 7, 30, 2, 5, 40], multi_hot=())).logit_BK
    before = [[0.02456, -0.0218, 0.05887, -0.02729, 0.01447], [-0.02481, -0.04607, 0.00676, 1e-05, -0.00683]]
    torch.testing.assert_close(logit_BK[[0, 2]], torch.tensor(before), rtol=0, atol=1e-5)


def test_the_same_seed_builds_the_same_model() -> None:
    pairs = zip(small_model().parameters(), small_model.__wrapped__().parameters(), strict=True)
    assert all(torch.equal(one, other) for one, other in pairs)


@pytest.mark.parametrize("rule", ["what the newest event was", "whether the newest event resembles the ad"])
def test_a_rule_planted_in_the_history_is_learned(rule: str) -> None:
    document = small_layout().to_dict()
    layout = InputLayout.from_dict(
        document | {"tables": [{**t, "rows": min(t["rows"], 10)} for t in document["tables"]]}
    )
    torch.manual_seed(0)
    model = FoundationModel(layout, replace(SMALL, embedding_std=0.2))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    losses = []
    for step in range(PLANTED_STEPS):
        batch = random_batch(layout, [1 + row % 3 for row in range(256)], seed=step)
        newest_B = torch.cumsum(batch.ids["event_ad"].lengths(), dim=0) - 1
        newest_ad_B, ad_B = batch.ids["event_ad"].values()[newest_B], batch.ids["ad"].values()
        label_B = (newest_ad_B % 5 == (0 if rule.startswith("what") else ad_B % 5)).float()
        loss = functional.binary_cross_entropy_with_logits(model(batch).logit_BK[:, 0], label_B)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert sum(losses[-10:]) / 10 < 0.35  # the base rate of one in five costs 0.50


@settings(max_examples=8)
@given(st.lists(st.integers(0, 5), min_size=1, max_size=6), st.integers(0, 100))
def test_a_model_that_treats_surfaces_alike_does_not_know_where_a_row_is_shown(lengths: list[int], seed: int) -> None:
    layout, batch = small_layout(), random_batch(small_layout(), lengths, seed=seed, dtype=torch.float64)
    parts = batch.ids.to_dict()
    moved = {key: (8 - 1 - part.values() if key == "surface" else part.values()) for key, part in parts.items()}
    ids = type(batch.ids)(keys=batch.ids.keys(), values=torch.cat(list(moved.values())), lengths=batch.ids.lengths())
    elsewhere = replace(batch, surface_B=1 - batch.surface_B, ids=ids)
    assert torch.equal(alike_model()(batch).logit_BK, alike_model()(elsewhere).logit_BK)
    assert not torch.allclose(small_model()(batch).logit_BK, small_model()(elsewhere).logit_BK)
    assert not [name for name, _ in alike_model().named_parameters() if name.startswith("gate.")]
    assert alike_model().layout == layout


@pytest.mark.parametrize("rates", [[[0.3, 0.05]], [[0.4, 0.05], [0.2, float("nan")]], [0.3, 0.05]])
def test_a_model_that_treats_surfaces_alike_starts_from_one_rate_an_objective(rates: list) -> None:
    torch.manual_seed(0)
    model = FoundationModel(small_layout(), replace(SMALL, surfaces_alike=True))
    model.init_bias(torch.tensor(rates))
    assert torch.sigmoid(model.heads.shared.bias).tolist() == pytest.approx([0.3, 0.05])
    assert not model.heads.bias_SK.any()


def test_dropout_acts_in_training_only() -> None:
    torch.manual_seed(0)
    model = FoundationModel(small_layout(), FoundationConfig(dim=8, dropout=0.5))
    batch = random_batch(model.layout, [3, 2])
    assert not torch.equal(model(batch).logit_BK, model(batch).logit_BK)
    model.eval()
    assert torch.equal(model(batch).logit_BK, model(batch).logit_BK)


def test_a_fresh_model_predicts_the_base_rate() -> None:
    model = FoundationModel(small_layout(), SMALL)
    model.init_bias(torch.tensor([0.3, 0.05]))
    prob_BK = torch.sigmoid(model(random_batch(model.layout, [2] * 50)).logit_BK)
    torch.testing.assert_close(prob_BK.mean(dim=0), torch.tensor([0.3, 0.05]), rtol=0.1, atol=0.0)
