"""Log-time phases turn by position and by the logarithm of the time gap."""

from __future__ import annotations

import torch

from gem_pipeline.kernels.jagged import rotary_phase, rotate
from gem_pipeline.kernels.rotary import log_time_phase
from tests.kernels.jagged_cases import HEADS, TIGHT, draw
from tests.oracles import kernels as oracle

GAPS = [0.0, 5.0, 3600.0, 2.5e6]
POSITIONS = [0, 3, 1, 900]


def phase(gaps: list[float], positions: list[int], head_dim: int = 8) -> torch.Tensor:
    return log_time_phase(
        torch.tensor(positions), torch.tensor(gaps, dtype=torch.float64), head_dim, torch.float64, time_scale_s=60.0
    )


def test_a_rotation_equals_its_matrices() -> None:
    x_THD = draw(4, HEADS, 8)
    expected = [oracle.log_time_rotation(x, p, g, 60.0) for x, p, g in zip(x_THD, POSITIONS, GAPS, strict=True)]
    torch.testing.assert_close(rotate(x_THD, phase(GAPS, POSITIONS)), torch.stack(expected), **TIGHT)


def test_without_a_gap_only_the_position_turns() -> None:
    expected = rotary_phase(torch.tensor(POSITIONS), 8, torch.float64)
    torch.testing.assert_close(phase([0.0] * 4, POSITIONS), expected, **TIGHT)


def test_a_score_depends_on_the_ratio_of_two_ages() -> None:
    q, k = draw(1, 1, 8), draw(1, 1, 8, seed=1)

    def score(first_s: float, second_s: float) -> torch.Tensor:
        turned = [rotate(x, phase([gap], [0])) for x, gap in ((q, first_s), (k, second_s))]
        return (turned[0] * turned[1]).sum()

    day = 86_400.0 * 10
    torch.testing.assert_close(score(day, 2 * day), score(3 * day, 6 * day), rtol=1e-3, atol=1e-3)
    assert abs(score(day, 2 * day) - score(day, 9 * day)) > 1e-2


def test_one_pair_a_head_is_legal() -> None:
    assert phase(GAPS, POSITIONS, head_dim=2).shape == (4, 1, 1)
