"""The trunk runs every backbone with every addition, each addition matters, and nothing in it idles."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from gem_pipeline.errors import ConfigError
from gem_pipeline.models.domains import DomainConfig
from gem_pipeline.models.experts import ExpertConfig, WukongExperts
from gem_pipeline.models.foundation_config import BACKBONES, FoundationConfig
from gem_pipeline.models.trunk import Trunk, TrunkConfig
from tests.models.sequence_cases import DIM, LENGTHS, random_rows

NUM_TOKENS = 6
PLAIN = FoundationConfig(dim=DIM, layers=4, rank=2, fmb_tokens=3, lcb_tokens=3, fmb_hidden=(6,), num_summary=3)
FULL = replace(
    PLAIN,
    backbone="kunlun",
    cross_layer=True,
    experts=ExpertConfig(count=2, shared_tokens=2),
    domain=DomainConfig(expert_width=4),
)


def shape(config: FoundationConfig) -> TrunkConfig:
    return config.trunk(2)


def run(model: Trunk) -> torch.Tensor:
    x_BND = torch.randn(len(LENGTHS), NUM_TOKENS, DIM, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return model(x_BND, random_rows(), torch.tensor([0, 1, 1, 0]))


@pytest.mark.parametrize("backbone", BACKBONES)
@pytest.mark.parametrize("config", [PLAIN, FULL], ids=["plain", "full"])
@pytest.mark.parametrize("layers", [1, 2, 3, 4])
def test_every_parameter_has_a_gradient_at_any_depth(backbone: str, config: FoundationConfig, layers: int) -> None:
    torch.manual_seed(0)
    trunk = shape(replace(config, backbone=backbone, layers=layers))
    model = Trunk(NUM_TOKENS, trunk).double()
    out = run(model)
    assert out.shape == (len(LENGTHS), trunk.num_out, DIM)
    out.square().sum().backward()
    assert [name for name, p in model.named_parameters() if p.grad is None or not p.grad.any()] == []


@pytest.mark.parametrize("backbone", BACKBONES)
def test_a_sequence_that_is_told_nothing_does_not_change_with_the_other_side(backbone: str) -> None:
    torch.manual_seed(0)
    config = replace(FULL, backbone=backbone, layers=2, one_directional=True)
    model, x_BND = Trunk(NUM_TOKENS, shape(config)).double(), torch.randn(4, NUM_TOKENS, DIM, dtype=torch.float64)
    out = model(x_BND, random_rows(), torch.tensor([0, 1, 1, 0]))
    other = model(-x_BND, random_rows(), torch.tensor([0, 1, 1, 0]))
    split = config.num_summary
    torch.testing.assert_close(out[:, split:], other[:, split:], rtol=0, atol=0)
    assert not torch.allclose(out[:, :split], other[:, :split])
    out.square().sum().backward()
    assert [name for name, p in model.named_parameters() if p.grad is None or not p.grad.any()] == []


def test_a_sequence_informs_the_other_side_in_one_direction_too() -> None:
    torch.manual_seed(0)
    config = replace(FULL, one_directional=True)
    model, x_BND = Trunk(NUM_TOKENS, shape(config)).double(), torch.randn(4, NUM_TOKENS, DIM, dtype=torch.float64)
    split, surface_B = config.num_summary, torch.tensor([0, 1, 1, 0])
    told = model(x_BND, random_rows(), surface_B)[:, :split]
    untold = model(x_BND, random_rows(seed=3), surface_B)[:, :split]
    changed = [not torch.allclose(a, b) for a, b in zip(told, untold, strict=True)]
    assert changed == [length > 0 for length in LENGTHS]


def test_a_summary_that_nobody_reads_is_not_made() -> None:
    kunlun = Trunk(NUM_TOKENS, shape(replace(PLAIN, backbone="kunlun")))
    assert kunlun.fresh == (True, False, True, False, True)
    assert Trunk(NUM_TOKENS, shape(replace(FULL))).fresh == (True, True, True, False, True)
    assert all(Trunk(NUM_TOKENS, shape(PLAIN)).fresh)


def test_additions_stand_where_the_configuration_puts_them() -> None:
    model = Trunk(NUM_TOKENS, shape(FULL))
    assert [layer.cross_layer is not None for layer in model.interactions] == [False, True, True, True]
    assert all(isinstance(layer.wukong, WukongExperts) and layer.domain is not None for layer in model.interactions)
    assert all(
        layer.domain is None and layer.cross_layer is None for layer in Trunk(NUM_TOKENS, shape(PLAIN)).interactions
    )


@pytest.mark.parametrize("change", [{"cross_layer_heads": 3}, {"cross_layer_heads": -1}, {"layers": 0}])
def test_an_impossible_shape_is_refused(change: dict[str, int]) -> None:
    with pytest.raises(ConfigError):
        replace(shape(PLAIN), **change)
