"""Target attention equals its equation, and the ad decides which events count."""

from __future__ import annotations

import torch

from gem_pipeline.models.din import TargetAttention
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


def attention() -> TargetAttention:
    torch.manual_seed(0)
    return TargetAttention(3, DIM, target=(1, 2), hidden=6, dropout=0.0).double()


def test_events_are_weighed_by_the_activation_unit_row_by_row() -> None:
    rows, x_BND, model = random_rows(), random_context(), attention()
    found = model(x_BND, rows, torch.zeros(len(LENGTHS), dtype=torch.int64))
    assert found.shape == (len(LENGTHS), model.out_width)
    for row, (events_TD, _) in enumerate(elements_by_row(rows)):
        v_D = x_BND[row, 1] + x_BND[row, 2]
        sum_D = torch.zeros(DIM, dtype=torch.float64)
        for e_D in events_TD:
            sum_D = sum_D + model.unit(torch.cat([e_D, v_D, e_D - v_D, e_D * v_D])) * e_D
        expected = torch.cat([x_BND[row].flatten(), sum_D / max(1, len(events_TD)) ** 0.5])
        torch.testing.assert_close(found[row], expected, **TIGHT)


def test_a_row_does_not_depend_on_the_others() -> None:
    rows, x_BND, model = random_rows(), random_context(), attention()
    order = list(reversed(range(len(LENGTHS))))
    surface_B = torch.zeros(len(LENGTHS), dtype=torch.int64)
    moved = model(x_BND[order], take(rows, order), surface_B)
    torch.testing.assert_close(moved, model(x_BND, rows, surface_B)[order], **TIGHT)


def test_gradients_are_those_of_the_function() -> None:
    assert gradients_hold(attention(), [3, 0])


def test_it_costs_its_activation_unit_for_every_event() -> None:
    given = (random_context(), random_rows(), torch.zeros(len(LENGTHS), dtype=torch.int64))
    assert counted_flops(attention(), *given) == sum(LENGTHS) * 2 * (4 * DIM * 6 + 6)
