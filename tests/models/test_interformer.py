"""The interleaved trunk follows the paper's algorithm, for any history length."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from gem_pipeline.errors import ConfigError
from gem_pipeline.kernels.jagged import lengths_to_offsets
from gem_pipeline.models.interformer import InterFormer, InterFormerConfig
from gem_pipeline.models.wukong import WukongConfig
from tests.oracles import trunk as oracle
from tests.oracles.attention import rows_of

NUM_TOKENS, DIM = 5, 8
LENGTHS = [3, 0, 1, 6]


def shape(*, layers: int = 2, fmb: int = 3, heads: int = 2) -> InterFormerConfig:
    return InterFormerConfig(
        dim=DIM,
        layers=layers,
        heads=heads,
        num_summary=2,
        num_pma=2,
        num_recent=2,
        pffn_hidden=4,
        wukong=WukongConfig(fmb_tokens=fmb, lcb_tokens=2, rank=3, hidden=(6,), attentive_tokens=2),
    )


def inputs() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    x_BND = torch.randn(len(LENGTHS), NUM_TOKENS, DIM, generator=generator, dtype=torch.float64)
    s_TD = torch.randn(sum(LENGTHS), DIM, generator=generator, dtype=torch.float64)
    return x_BND, s_TD, lengths_to_offsets(torch.tensor(LENGTHS))


@pytest.mark.parametrize("fmb", [3, 4])  # 3 + 2 tokens are the input's five; 4 + 2 must be restored to five
@pytest.mark.parametrize("layers", [1, 3])
def test_the_trunk_equals_the_algorithm_run_one_example_at_a_time(layers: int, fmb: int) -> None:
    model = InterFormer(NUM_TOKENS, shape(layers=layers, fmb=fmb)).double()
    x_BND, s_TD, offsets_B1 = inputs()
    rows = zip(x_BND, rows_of(s_TD, offsets_B1), strict=True)
    expected = torch.stack([oracle.interformer(x_ND, row, model) for x_ND, row in rows])
    torch.testing.assert_close(model(x_BND, s_TD, offsets_B1), expected, rtol=0, atol=1e-10)


def test_every_event_reaches_the_result_through_the_last_layer() -> None:
    model = InterFormer(NUM_TOKENS, shape()).double()
    x_BND, s_TD, offsets_B1 = inputs()
    s_TD.requires_grad_()
    model(x_BND, s_TD, offsets_B1).square().sum().backward()
    assert s_TD.grad is not None
    assert (s_TD.grad.abs().sum(dim=1) > 0).all()


def test_a_row_without_history_has_zero_recent_tokens() -> None:
    model = InterFormer(NUM_TOKENS, shape()).double()
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
        "import gem_pipeline.kernels.attention, gem_pipeline.models.heads, gem_pipeline.models.interformer\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)
