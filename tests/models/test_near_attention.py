"""Near attention as a layer equals its equation with log-time rotations."""

from __future__ import annotations

import pytest
import torch

from gem_pipeline.errors import ConfigError
from gem_pipeline.models.kunlun import LogTimeEntry
from gem_pipeline.models.near_attention import NearAttention, NearConfig
from tests.models.sequence_cases import DIM, TIGHT, by_row, enter, random_rows
from tests.oracles import sequence_blocks as oracle


@pytest.mark.parametrize("kind", ["block", "window"])
def test_a_layer_equals_its_equation_row_by_row(kind: str) -> None:
    layer, rows = NearAttention(DIM, 2, NearConfig(kind=kind, reach=2)).double(), random_rows()
    state = enter(LogTimeEntry(DIM // 2, 60.0), rows)
    expected = by_row(rows.value_TD, rows, lambda s, gaps, _: oracle.near_attention(s, gaps, layer, 60.0))
    torch.testing.assert_close(layer(state.s_TD, state.offsets_B1, state.phase_T1H), expected, **TIGHT)


@pytest.mark.parametrize("change", [{"kind": "far"}, {"reach": 0}])
def test_an_impossible_reach_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        NearConfig(**change)
