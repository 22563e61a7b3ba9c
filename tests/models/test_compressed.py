"""The history is one vector from the start, whatever the level."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from gem_pipeline.errors import ConfigError
from gem_pipeline.models.compressed import CompressedConfig
from tests.models.sequence_cases import DIM, LENGTHS, TIGHT, enter, random_context, random_rows, take


def test_every_level_sees_the_same_single_vector_a_row() -> None:
    config = CompressedConfig(dim=DIM, heads=2)
    assert config.num_sequence_summary == 1
    state = enter(config.entry().double(), random_rows())
    later = config.summary(1)(config.layer(0)(config.summary(0)(state), random_context()))
    assert later.summary_BMD.shape == (len(LENGTHS), 1, DIM)
    torch.testing.assert_close(later.summary_BMD, state.summary_BMD, rtol=0, atol=0)
    assert not later.summary_BMD[LENGTHS.index(0)].any()


def test_the_vector_is_a_softmax_average_of_projected_events() -> None:
    entry, rows = CompressedConfig(dim=DIM, heads=1).entry().double(), random_rows([4])
    pool = entry.pool
    normed_TD = pool.norm(rows.value_TD)
    score_T = normed_TD @ (pool.query_PHE[0, 0] @ pool.key_HED[0]) / DIM**0.5
    mean_D = torch.softmax(score_T, dim=0) @ normed_TD
    expected_D = pool.out(pool.value_HED[0] @ mean_D)
    torch.testing.assert_close(enter(entry, rows).summary_BMD[0, 0], expected_D, **TIGHT)


def test_gradients_are_those_of_the_function() -> None:
    entry, rows = CompressedConfig(dim=DIM, heads=2).entry().double(), random_rows([3, 0])

    def run(value_TD: torch.Tensor) -> torch.Tensor:
        return enter(entry, replace(rows, value_TD=value_TD)).summary_BMD

    assert torch.autograd.gradcheck(run, (rows.value_TD.clone().requires_grad_(),))


def test_a_row_does_not_depend_on_the_others() -> None:
    entry, rows = CompressedConfig(dim=DIM, heads=2).entry().double(), random_rows()
    order = list(reversed(range(len(LENGTHS))))
    moved = enter(entry, take(rows, order)).summary_BMD
    torch.testing.assert_close(moved, enter(entry, rows).summary_BMD[order], **TIGHT)


def test_heads_that_do_not_divide_the_width_are_refused() -> None:
    with pytest.raises(ConfigError):
        CompressedConfig(dim=DIM, heads=DIM - 1)
