"""Costs are counted as their formulas say."""

from __future__ import annotations

import torch
from torch import nn

from gem_pipeline.batches.batch import Batch
from gem_pipeline.kernels.attention import jagged_attention
from gem_pipeline.kernels.jagged import lengths_to_offsets
from gem_pipeline.models.flops import ParameterCount, count_parameters, forward_flops, without_storage
from gem_pipeline.models.foundation import FoundationModel
from gem_pipeline.models.foundation_config import FoundationConfig
from gem_pipeline.models.vertical import VerticalConfig, VerticalModel
from tests.batches_factory import kuairand_layout, random_batch, small_layout


class Probe(nn.Module):
    """A linear layer and an attention over the events of a batch."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 5)

    def forward(self, batch: Batch) -> torch.Tensor:
        offsets_B1 = lengths_to_offsets(batch.ids["event_ad"].lengths())
        x_THD = batch.event_dense_TE[:, None, :]
        return self.linear(batch.dense_BF).sum() + jagged_attention(x_THD, x_THD, x_THD, offsets_B1, offsets_B1).sum()


def test_a_linear_layer_and_an_attention_cost_what_their_formulas_say() -> None:
    flops = forward_flops(Probe(), random_batch(small_layout(), [4] * 6))
    assert flops == 2 * 3 * 5 + 2 * (2 * 4 * 4 * 2)


def test_a_parameter_shown_to_every_row_can_be_counted_and_still_learns() -> None:
    layout = small_layout()
    model = FoundationModel(layout, FoundationConfig(one_directional=True))
    assert forward_flops(model, random_batch(layout, [3, 0])) > 0
    assert all(parameter.requires_grad for parameter in model.parameters())


def test_tables_are_counted_apart_from_the_dense_part() -> None:
    counts = count_parameters(VerticalModel(small_layout(), VerticalConfig(dim=4)))
    assert counts.embedding == (50 + 20 + 8) * 4
    assert count_parameters(nn.Linear(3, 5)) == ParameterCount(dense=20, embedding=0)


def test_size_tiny_costs_what_the_size_ladder_says() -> None:
    model = FoundationModel(kuairand_layout(), FoundationConfig())
    batch = random_batch(model.layout, [model.config.history.max_events] * 8)
    assert 0.25e6 <= count_parameters(model).dense <= 0.40e6
    assert 2.5e6 <= forward_flops(model, batch) <= 4.0e6


def test_a_vertical_model_is_far_cheaper_than_its_teacher() -> None:
    batch = random_batch(kuairand_layout(), [64] * 8)
    teacher = forward_flops(FoundationModel(kuairand_layout(), FoundationConfig()), batch)
    student = forward_flops(VerticalModel(kuairand_layout(), VerticalConfig()), batch)
    assert student < 0.1 * teacher


def test_a_model_without_storage_costs_what_the_real_one_does() -> None:
    config = FoundationConfig(dim=8)
    with torch.device("meta"):
        hollow = FoundationModel(small_layout(), config)
    assert count_parameters(hollow) == count_parameters(FoundationModel(small_layout(), config))
    batch = random_batch(small_layout(), [5, 0, 9])
    flops = forward_flops(without_storage(hollow), batch)
    assert flops == forward_flops(FoundationModel(small_layout(), config), batch)
    assert all(parameter.untyped_storage().nbytes() == 4 for parameter in hollow.parameters())
