"""The cross network equals its equation, with full matrices and with matrices of low rank."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from gem_pipeline.errors import ConfigError
from gem_pipeline.models.dcn import CrossNetwork
from tests.models.sequence_cases import (
    DIM,
    LENGTHS,
    TIGHT,
    counted_flops,
    elements_by_row,
    gradients_hold,
    random_context,
    random_rows,
    take,
)

WIDTH = 4 * DIM


def network(rank: int = 3) -> CrossNetwork:
    torch.manual_seed(0)
    return CrossNetwork(3, DIM, layers=2, rank=rank, hidden=(5,), dropout=0.0).double()


def matrix(cross: torch.nn.Module) -> Tensor:
    low = isinstance(cross.narrow, torch.nn.Linear)
    return cross.widen.weight @ cross.narrow.weight if low else cross.widen.weight


@pytest.mark.parametrize("rank", [0, 3, WIDTH])
def test_crosses_beside_a_deep_network_row_by_row(rank: int) -> None:
    rows, x_BND, model = random_rows(), random_context(), network(rank)
    found = model(x_BND, rows, torch.zeros(len(LENGTHS), dtype=torch.int64))
    assert found.shape == (len(LENGTHS), model.out_width)
    for row, (events_TD, _) in enumerate(elements_by_row(rows)):
        mean_D = events_TD.mean(dim=0) if len(events_TD) else torch.zeros(DIM, dtype=torch.float64)
        first_X = torch.cat([x_BND[row].flatten(), mean_D])
        x_X = first_X
        for cross in model.crosses:
            x_X = first_X * (matrix(cross) @ x_X + cross.widen.bias) + x_X
        deep_H = torch.relu(model.deep[0].weight @ first_X + model.deep[0].bias)
        torch.testing.assert_close(found[row], torch.cat([x_X, deep_H]), **TIGHT)


def test_low_rank_costs_what_its_factors_hold() -> None:
    held = [sum(p.numel() for p in network(rank).crosses.parameters()) for rank in (0, 3, WIDTH)]
    assert held == [2 * (WIDTH * WIDTH + WIDTH), 2 * (2 * 3 * WIDTH + WIDTH), 2 * (WIDTH * WIDTH + WIDTH)]


def test_a_row_does_not_depend_on_the_others() -> None:
    rows, x_BND, model = random_rows(), random_context(), network()
    order = list(reversed(range(len(LENGTHS))))
    surface_B = torch.zeros(len(LENGTHS), dtype=torch.int64)
    moved = model(x_BND[order], take(rows, order), surface_B)
    torch.testing.assert_close(moved, model(x_BND, rows, surface_B)[order], **TIGHT)


@pytest.mark.parametrize("rank", [0, 3])
def test_gradients_are_those_of_the_function(rank: int) -> None:
    assert gradients_hold(network(rank), [2, 0])


@pytest.mark.parametrize(("rank", "of_a_cross"), [(0, 2 * WIDTH * WIDTH), (3, 4 * 3 * WIDTH)])
def test_it_costs_its_matrices(rank: int, of_a_cross: int) -> None:
    given = (random_context(), random_rows(), torch.zeros(len(LENGTHS), dtype=torch.int64))
    assert counted_flops(network(rank), *given) == len(LENGTHS) * (2 * of_a_cross + 2 * WIDTH * 5)


@pytest.mark.parametrize("change", [{"layers": 0}, {"rank": -1}, {"hidden": ()}])
def test_an_impossible_shape_is_refused(change: dict) -> None:
    with pytest.raises(ConfigError, match="cross network"):
        CrossNetwork(3, DIM, **({"layers": 2, "rank": 0, "hidden": (5,), "dropout": 0.0} | change))
