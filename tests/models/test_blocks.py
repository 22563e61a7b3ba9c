"""Shared blocks equal their formulas."""

from __future__ import annotations

import torch
from torch import nn

from gem_pipeline.models.blocks import DenseNormalizer, SelfGate, TokenCompression, mlp
from tests.oracles import trunk as oracle

TIGHT = {"rtol": 0.0, "atol": 1e-10}


def test_mlp_has_activations_between_layers_and_a_linear_end() -> None:
    block = mlp([3, 5, 2], dropout=0.1)
    assert [type(layer) for layer in block] == [nn.Linear, nn.ReLU, nn.Dropout, nn.Linear]
    x = torch.randn(4, 3, dtype=torch.float64)
    torch.testing.assert_close(block.double().eval()(x), oracle.perceptron(x, block), **TIGHT)


def test_token_compression_is_a_matrix_over_the_token_axis() -> None:
    block = TokenCompression(5, 2).double()
    x_BND = torch.randn(3, 5, 4, dtype=torch.float64)
    torch.testing.assert_close(block(x_BND), torch.stack([block.weight_MN @ x for x in x_BND]), **TIGHT)


def test_self_gate_equals_its_formula_and_keeps_zeros() -> None:
    gate = SelfGate(4).double()
    z_BND = torch.randn(2, 3, 4, dtype=torch.float64)
    torch.testing.assert_close(gate(z_BND), torch.stack([oracle.gate(z, gate) for z in z_BND]), **TIGHT)
    assert not gate(torch.zeros_like(z_BND)).any()


def test_a_column_without_spread_is_zero_until_a_later_day_gives_it_some() -> None:
    normalize = DenseNormalizer(3)
    normalize.fit(torch.tensor([1.0, 5.0, 0.0]), torch.tensor([2.0, 0.0, 0.0]))
    x_BF = torch.tensor([[3.0, 6.0, 1.0]])
    assert normalize(x_BF).tolist() == [[1.0, 0.0, 0.0]]
    normalize.fit(torch.tensor([9.0, 4.0, 0.0]), torch.tensor([9.0, 1.0, 0.0]), late=True)
    assert normalize(x_BF).tolist() == [[1.0, 2.0, 0.0]]  # the first keeps its moments, the last has none yet
