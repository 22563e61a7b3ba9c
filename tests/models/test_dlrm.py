"""DLRM's interaction equals its equation."""

from __future__ import annotations

import torch

from gem_pipeline.models.dlrm import DotInteraction, pairwise_dots
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


def test_pairwise_dots_match_a_double_loop() -> None:
    x_BND = torch.randn(2, 4, 3, dtype=torch.float64)
    expected = [[x[i] @ x[j] for i in range(4) for j in range(i + 1, 4)] for x in x_BND]
    torch.testing.assert_close(pairwise_dots(x_BND), torch.tensor(expected, dtype=torch.float64))


def test_first_token_and_all_pairs_of_dot_products() -> None:
    rows, x_BND = random_rows(), random_context()
    model, surface_B = DotInteraction(3, DIM), torch.zeros(len(LENGTHS), dtype=torch.int64)
    found = model(x_BND, rows, surface_B)
    assert found.shape == (len(LENGTHS), model.out_width)
    for row, (events_TD, _) in enumerate(elements_by_row(rows)):
        mean_D = events_TD.mean(dim=0) if len(events_TD) else torch.zeros(DIM, dtype=torch.float64)
        vectors = [*x_BND[row], mean_D]
        dots = [vectors[i] @ vectors[j] for i in range(4) for j in range(i + 1, 4)]
        torch.testing.assert_close(found[row], torch.cat([vectors[0], torch.stack(dots)]), **TIGHT)


def test_a_row_does_not_depend_on_the_others() -> None:
    rows, x_BND, model = random_rows(), random_context(), DotInteraction(3, DIM)
    order = list(reversed(range(len(LENGTHS))))
    surface_B = torch.zeros(len(LENGTHS), dtype=torch.int64)
    moved = model(x_BND[order], take(rows, order), surface_B)
    torch.testing.assert_close(moved, model(x_BND, rows, surface_B)[order], **TIGHT)


def test_gradients_are_those_of_the_function() -> None:
    assert gradients_hold(DotInteraction(3, DIM), [2, 0, 1])


def test_it_costs_the_products_of_all_pairs() -> None:
    given = (random_context(), random_rows(), torch.zeros(len(LENGTHS), dtype=torch.int64))
    assert counted_flops(DotInteraction(3, DIM), *given) == len(LENGTHS) * 2 * 4 * 4 * DIM
