"""What a surface has of its own equals its equations and starts alike for all surfaces."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from gem_pipeline.errors import ConfigError
from gem_pipeline.models.domains import DomainConfig, DomainExpert, DomainNorm, DomainTokens
from tests.oracles import sequence_blocks as oracle

SURFACES = torch.tensor([1, 0, 2])


@pytest.mark.parametrize(
    ("layer", "twin"), [(DomainNorm(3, 8), oracle.domain_norm), (DomainExpert(3, 8, 5), oracle.domain_expert)]
)
def test_a_surface_changes_tokens_as_its_equation_says(layer: nn.Module, twin) -> None:
    layer, x_BND = layer.double(), torch.randn(3, 4, 8, dtype=torch.float64)
    torch.testing.assert_close(layer(x_BND, SURFACES), layer(x_BND, SURFACES.flip(0)), rtol=0, atol=1e-10)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)
    pairs = zip(x_BND, SURFACES.tolist(), strict=True)
    expected = torch.stack([twin(x, surface, layer) for x, surface in pairs])
    torch.testing.assert_close(layer(x_BND, SURFACES), expected, rtol=0, atol=1e-10)


def test_tokens_of_a_surface_are_its_own() -> None:
    tokens = DomainTokens(3, 2, 8, init_std=0.1)
    assert torch.equal(tokens(SURFACES), tokens.token_SGD[SURFACES])


def test_negative_sizes_are_refused() -> None:
    with pytest.raises(ConfigError):
        DomainConfig(tokens=-1)
