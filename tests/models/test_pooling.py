"""Hierarchical seed pooling as a layer equals its equation."""

from __future__ import annotations

import pytest
import torch

from gem_pipeline.errors import ConfigError
from gem_pipeline.models.pooling import SeedPooling, SeedPoolingConfig
from tests.models.sequence_cases import DIM, LENGTHS, TIGHT, elements_by_row, random_rows
from tests.oracles import sequence_blocks as oracle


def test_pooling_equals_its_equation_row_by_row() -> None:
    layer, rows = SeedPooling(DIM, 2, SeedPoolingConfig(seeds=5, tokens=2, rank=3)).double(), random_rows()
    expected = torch.stack([oracle.seed_pooling(s, layer) for s, _ in elements_by_row(rows)])
    found = layer(rows.value_TD, rows.offsets_B1)
    torch.testing.assert_close(found, expected, **TIGHT)
    assert not found[LENGTHS.index(0)].any()


@pytest.mark.parametrize("change", [{"seeds": 4, "tokens": 4}, {"rank": 0}, {"tokens": 0}])
def test_a_pooling_that_does_not_shrink_is_refused(change: dict[str, int]) -> None:
    with pytest.raises(ConfigError):
        SeedPoolingConfig(**change)
