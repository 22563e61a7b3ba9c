"""Wukong experts equal their equation, and the surface moves their gate."""

from __future__ import annotations

import pytest
import torch

from gem_pipeline.errors import ConfigError
from gem_pipeline.models.experts import ExpertConfig, ExpertGate, WukongExperts
from gem_pipeline.models.wukong import WukongConfig
from tests.oracles import sequence_blocks as oracle

WUKONG = WukongConfig(fmb_tokens=4, lcb_tokens=3, rank=2, hidden=(6,), attentive_tokens=2)


def experts(count: int, num_tokens: int = 7) -> WukongExperts:
    config = ExpertConfig(count=count, shared_tokens=2)
    return WukongExperts(num_tokens, 8, WUKONG, experts=config, num_surfaces=3).double()


@pytest.mark.parametrize("count", [2, 3])
def test_experts_equal_their_equation(count: int) -> None:
    layer, x_BND, surface_B = experts(count), torch.randn(4, 7, 8, dtype=torch.float64), torch.tensor([0, 2, 1, 2])
    found = layer(x_BND, surface_B)
    pairs = zip(x_BND, surface_B.tolist(), strict=True)
    expected = torch.stack([oracle.wukong_experts(x, surface, layer) for x, surface in pairs])
    assert found.shape[1] == layer.num_out
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-10)


def test_gates_average_one_and_follow_the_surface() -> None:
    gate, x_BND = ExpertGate(3, 8, 4).double(), torch.randn(2, 5, 8, dtype=torch.float64)
    weights_BE = gate(x_BND, torch.tensor([0, 1]))
    torch.testing.assert_close(weights_BE.mean(dim=1), torch.ones(2, dtype=torch.float64))
    assert not torch.equal(weights_BE, gate(x_BND, torch.tensor([1, 0])))


def test_more_experts_than_tokens_are_refused() -> None:
    with pytest.raises(ConfigError, match="cannot be parted"):
        experts(4, num_tokens=3)
    with pytest.raises(ConfigError, match="at least 1"):
        ExpertConfig(count=0)
