"""Wukong blocks equal the paper's equations."""

from __future__ import annotations

import pytest
import torch

from gem_pipeline.errors import ConfigError
from gem_pipeline.models.wukong import FactorizationMachineBlock, WukongConfig, WukongLayer
from tests.oracles import trunk as oracle

TIGHT = {"rtol": 0.0, "atol": 1e-10}


def shape(*, attentive: bool = True, fmb: int = 3, lcb: int = 2) -> WukongConfig:
    return WukongConfig(fmb_tokens=fmb, lcb_tokens=lcb, rank=3, hidden=(7,), attentive_y=attentive, attentive_tokens=2)


@pytest.mark.parametrize("attentive", [False, True])
def test_the_factorization_machine_block_equals_the_full_product(attentive: bool) -> None:
    block = FactorizationMachineBlock(5, 4, shape(attentive=attentive)).double()
    x_BND = torch.randn(6, 5, 4, dtype=torch.float64)
    torch.testing.assert_close(block(x_BND), torch.stack([oracle.fm_block(x, block) for x in x_BND]), **TIGHT)


@pytest.mark.parametrize("num_tokens", [5, 9])
def test_a_layer_equals_its_equation_with_and_without_a_residual_projection(num_tokens: int) -> None:
    layer = WukongLayer(num_tokens, 4, shape()).double()
    x_BND = torch.randn(3, num_tokens, 4, dtype=torch.float64)
    out = layer(x_BND)
    assert out.shape == (3, 5, 4)
    torch.testing.assert_close(out, torch.stack([oracle.wukong_layer(x, layer) for x in x_BND]), **TIGHT)


def test_the_residual_is_the_identity_where_the_token_count_stays() -> None:
    assert not list(WukongLayer(5, 4, shape()).residual.parameters())
    assert list(WukongLayer(6, 4, shape()).residual.parameters())


def test_an_attentive_y_differs_between_rows_and_a_static_one_does_not() -> None:
    x_BND = torch.randn(2, 5, 4)
    attentive = FactorizationMachineBlock(5, 4, shape()).y(x_BND)
    static = FactorizationMachineBlock(5, 4, shape(attentive=False)).y(x_BND)
    assert not torch.allclose(attentive[0], attentive[1])
    assert torch.equal(static[0], static[1])


def test_a_layer_passes_gradcheck() -> None:
    layer = WukongLayer(4, 2, shape(fmb=2, lcb=1)).double()
    x_BND = torch.randn(2, 4, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(layer, (x_BND,))


def test_a_size_of_zero_is_refused() -> None:
    with pytest.raises(ConfigError, match="at least 1"):
        shape(fmb=0)
