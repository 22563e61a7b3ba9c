"""Sequence blocks equal their equations, row by row."""

from __future__ import annotations

import torch

from gem_pipeline.kernels.jagged import lengths_to_offsets, rotary_phase
from gem_pipeline.models.sequence import (
    AttentionPooling,
    EventEncoder,
    EventMask,
    JaggedSelfAttention,
    PersonalizedProjection,
)
from tests.oracles import trunk as oracle
from tests.oracles.attention import rows_of

TIGHT = {"rtol": 0.0, "atol": 1e-10}
LENGTHS = [3, 1, 4]
DIM = 8


def elements(seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    offsets_B1 = lengths_to_offsets(torch.tensor(LENGTHS))
    return torch.randn(sum(LENGTHS), DIM, generator=generator, dtype=torch.float64), offsets_B1


def test_an_event_is_the_normed_sum_of_its_ids_and_numbers() -> None:
    encoder = EventEncoder(2, DIM).double()
    first, second = elements(0)[0], elements(1)[0]
    dense_TE = torch.randn(sum(LENGTHS), 2, dtype=torch.float64)
    expected = oracle.layer_norm(first + second + oracle.linear(dense_TE, encoder.dense), encoder.norm)
    torch.testing.assert_close(encoder(first + second, dense_TE), expected, **TIGHT)


def test_an_event_masks_itself() -> None:
    layer, event_TD = EventMask(DIM, 5).double(), elements()[0]
    masked = oracle.linear(event_TD * oracle.perceptron(event_TD, layer.mask), layer.compress)
    torch.testing.assert_close(layer(event_TD), oracle.layer_norm(event_TD + masked, layer.norm), **TIGHT)


def test_the_personalized_projection_uses_the_matrix_of_its_own_row() -> None:
    layer = PersonalizedProjection(2, DIM, 5).double()
    s_TD, offsets_B1 = elements()
    x_sum_BCD = torch.randn(len(LENGTHS), 2, DIM, dtype=torch.float64)
    rows = zip(rows_of(s_TD, offsets_B1), x_sum_BCD, strict=True)
    expected = torch.cat([oracle.personalized(row, x_sum, layer) for row, x_sum in rows])
    torch.testing.assert_close(layer(s_TD, offsets_B1, x_sum_BCD), expected, **TIGHT)


def test_self_attention_equals_multi_head_attention_with_rotary_positions() -> None:
    layer = JaggedSelfAttention(DIM, 2).double()
    s_TD, offsets_B1 = elements()
    positions = [position for length in LENGTHS for position in range(length, 0, -1)]
    phase_T1H = rotary_phase(torch.tensor(positions), DIM // 2, torch.float64)
    expected = [
        oracle.self_attention(row, list(range(row.shape[0], 0, -1)), layer) for row in rows_of(s_TD, offsets_B1)
    ]
    torch.testing.assert_close(layer(s_TD, offsets_B1, phase_T1H), torch.cat(expected), **TIGHT)


def test_attention_pooling_equals_plain_multi_head_attention() -> None:
    layer = AttentionPooling(3, DIM, 2).double()
    s_TD, offsets_B1 = elements()
    expected = torch.stack([oracle.pooled(row, layer) for row in rows_of(s_TD, offsets_B1)])
    torch.testing.assert_close(layer(s_TD, offsets_B1), expected, **TIGHT)


def test_pooling_an_empty_row_gives_zeros() -> None:
    layer = AttentionPooling(3, DIM, 2)
    pooled = layer(torch.randn(2, DIM), torch.tensor([0, 0, 2]))
    assert not pooled[0].any()
    assert pooled[1].any()
