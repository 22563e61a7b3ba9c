"""Positions count from the newest event, and every backbone keeps the promises of the interface."""

from __future__ import annotations

import pytest
import torch

from gem_pipeline.models.backbone import no_summary, recency_phase, recency_position
from gem_pipeline.models.foundation_config import BACKBONES, FoundationConfig
from tests.models.sequence_cases import LENGTHS, enter, random_context, random_rows, take


def test_the_newest_event_stands_at_one_and_leading_tokens_at_zero() -> None:
    offsets_B1 = torch.tensor([0, 5, 7])
    assert recency_position(offsets_B1, 7, 2).tolist() == [0, 0, 3, 2, 1, 0, 0]
    assert recency_position(offsets_B1, 7, 0).tolist() == [5, 4, 3, 2, 1, 2, 1]
    assert recency_phase(offsets_B1, torch.zeros(7, 8), num_leading=2, head_dim=4).shape == (7, 1, 2)


def test_a_state_starts_without_summary_tokens() -> None:
    assert no_summary(random_rows()).shape == (len(LENGTHS), 0, 8)


@pytest.mark.parametrize("name", BACKBONES)
def test_a_backbone_runs_level_by_level_and_a_row_never_knows_its_batch(name: str) -> None:
    torch.manual_seed(0)
    config = FoundationConfig(backbone=name, dim=8, num_summary=3).sequence()
    parts = [(config.summary(level).double(), config.layer(level).double()) for level in range(3)]
    entry, last = config.entry().double(), config.summary(0).double()

    def run(order: list[int]) -> torch.Tensor:
        context = random_context()[order]
        state = enter(entry, take(random_rows(), order), context)
        for summary, layer in parts:
            state = summary(state)
            assert state.summary_BMD.shape == (len(order), config.num_sequence_summary, 8)
            state = layer(state, context)
        return last(state).summary_BMD

    whole = run([0, 1, 2, 3])
    torch.testing.assert_close(run([3, 1, 0]), whole[[3, 1, 0]], rtol=0, atol=1e-10)
    torch.testing.assert_close(run([2]), whole[[2]], rtol=0, atol=1e-10)
