"""InterFormer's flow follows the paper's algorithm, for any history length."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from gem_pipeline.errors import ConfigError
from gem_pipeline.kernels.jagged import lengths_to_offsets
from gem_pipeline.models.backbone import EventRows
from gem_pipeline.models.domains import DomainConfig
from gem_pipeline.models.experts import ExpertConfig
from gem_pipeline.models.interformer import InterFormerConfig
from gem_pipeline.models.trunk import Trunk, TrunkConfig
from gem_pipeline.models.wukong import WukongConfig
from tests.oracles import trunk as oracle
from tests.oracles.attention import rows_of

NUM_TOKENS, DIM = 5, 8
LENGTHS = [3, 0, 1, 6]


def shape(*, layers: int = 2, fmb: int = 3, heads: int = 2) -> TrunkConfig:
    return TrunkConfig(
        dim=DIM,
        layers=layers,
        num_summary=2,
        wukong=WukongConfig(fmb_tokens=fmb, lcb_tokens=2, rank=3, hidden=(6,), attentive_tokens=2),
        experts=ExpertConfig(),
        cross_layer_heads=0,
        domain=DomainConfig(),
        num_surfaces=2,
        sequence=InterFormerConfig(dim=DIM, heads=heads, num_summary=2, num_pma=2, num_recent=2, pffn_hidden=4),
    )


def inputs() -> tuple[torch.Tensor, EventRows, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    x_BND = torch.randn(len(LENGTHS), NUM_TOKENS, DIM, generator=generator, dtype=torch.float64)
    s_TD = torch.randn(sum(LENGTHS), DIM, generator=generator, dtype=torch.float64)
    rows = EventRows(
        value_TD=s_TD, offsets_B1=lengths_to_offsets(torch.tensor(LENGTHS)), gap_s_T=torch.ones(sum(LENGTHS))
    )
    return x_BND, rows, torch.zeros(len(LENGTHS), dtype=torch.int64)


@pytest.mark.parametrize("fmb", [3, 4])  # 3 + 2 tokens are the input's five; 4 + 2 must be restored to five
@pytest.mark.parametrize("layers", [1, 3])
def test_the_trunk_equals_the_algorithm_run_one_example_at_a_time(layers: int, fmb: int) -> None:
    model = Trunk(NUM_TOKENS, shape(layers=layers, fmb=fmb)).double()
    x_BND, events, surface_B = inputs()
    rows = zip(x_BND, rows_of(events.value_TD, events.offsets_B1), strict=True)
    expected = torch.stack([oracle.interformer(x_ND, row, model) for x_ND, row in rows])
    torch.testing.assert_close(model(x_BND, events, surface_B), expected, rtol=0, atol=1e-10)


def test_every_event_reaches_the_result_through_the_last_layer() -> None:
    model = Trunk(NUM_TOKENS, shape()).double()
    x_BND, events, surface_B = inputs()
    s_TD = events.value_TD.requires_grad_()
    model(x_BND, events, surface_B).square().sum().backward()
    assert s_TD.grad is not None
    assert (s_TD.grad.abs().sum(dim=1) > 0).all()


def test_a_row_without_history_has_zero_recent_tokens() -> None:
    model = Trunk(NUM_TOKENS, shape()).double()
    summary = model(*inputs())
    assert not summary[LENGTHS.index(0), -2:].any()
    assert torch.isfinite(summary).all()


def test_heads_that_leave_odd_head_widths_are_refused() -> None:
    with pytest.raises(ConfigError, match="Rotary"):
        shape(heads=8)


def test_a_trunk_without_layers_is_refused() -> None:
    with pytest.raises(ConfigError, match="at least 1"):
        shape(layers=0)


def test_kernels_and_dense_blocks_import_where_torchrec_and_fbgemm_are_missing() -> None:
    program = (
        "import sys; sys.modules['torchrec'] = sys.modules['fbgemm_gpu'] = None\n"
        "import gem_pipeline.kernels.windowed, gem_pipeline.models.heads, gem_pipeline.models.trunk\n"
        "import gem_pipeline.models.kunlun, gem_pipeline.models.peers, gem_pipeline.models.pyramid\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)
