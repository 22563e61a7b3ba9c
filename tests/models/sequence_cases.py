"""Rows of events with time gaps, for the tests of sequence blocks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from gem_pipeline.kernels.jagged import lengths_to_offsets
from gem_pipeline.models.backbone import EventRows, SequenceState
from tests.oracles.attention import rows_of

DIM, LENGTHS = 8, [3, 0, 1, 6]
TIGHT = {"rtol": 0.0, "atol": 1e-10}


def random_rows(lengths: Sequence[int] = LENGTHS, *, dim: int = DIM, seed: int = 0) -> EventRows:
    """Events [T, D] in float64, older ones with larger gaps."""
    generator = torch.Generator().manual_seed(seed)
    total = sum(lengths)
    value_TD = torch.randn(total, dim, generator=generator, dtype=torch.float64)
    gap_s_T = torch.rand(total, generator=generator, dtype=torch.float64) * 1e5
    return EventRows(
        value_TD=value_TD,
        offsets_B1=lengths_to_offsets(torch.tensor(list(lengths), dtype=torch.int64)),
        gap_s_T=gap_s_T,
    )


def random_context(num_rows: int = len(LENGTHS), num_tokens: int = 3) -> Tensor:
    """Summaries of the other side, [B, C, D]."""
    generator = torch.Generator().manual_seed(1)
    return torch.randn(num_rows, num_tokens, DIM, generator=generator, dtype=torch.float64)


def elements_by_row(rows: EventRows) -> list[tuple[Tensor, list[float]]]:
    """Events and gaps of each row."""
    gaps = rows_of(rows.gap_s_T, rows.offsets_B1)
    return [(s, g.tolist()) for s, g in zip(rows_of(rows.value_TD, rows.offsets_B1), gaps, strict=True)]


def take(rows: EventRows, order: Sequence[int]) -> EventRows:
    """The rows in the given order."""
    values, gaps = rows_of(rows.value_TD, rows.offsets_B1), rows_of(rows.gap_s_T, rows.offsets_B1)
    return EventRows(
        value_TD=torch.cat([values[i] for i in order]),
        offsets_B1=lengths_to_offsets(torch.tensor([values[i].shape[0] for i in order])),
        gap_s_T=torch.cat([gaps[i] for i in order]),
    )


def by_row(s_TD: Tensor, rows: EventRows, twin: Callable[[Tensor, list[float], int], Tensor]) -> Tensor:
    """What a naive twin makes of each row, back to back; `s_TD` gives the width of an empty result."""
    parts = [twin(s, gaps, row) for row, (s, gaps) in enumerate(elements_by_row(rows)) if s.shape[0]]
    return torch.cat(parts) if parts else s_TD[:0]


def enter(entry: nn.Module, rows: EventRows, context: Tensor | None = None) -> SequenceState:
    """The state behind an entry."""
    num_rows = rows.offsets_B1.shape[0] - 1
    return entry(random_context(num_rows) if context is None else context, rows)


def counted_flops(model: nn.Module, *given: object) -> int:
    """Matrix FLOPs of one call."""
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        model(*given)
    return counter.get_total_flops()


def gradients_hold(model: nn.Module, lengths: Sequence[int]) -> bool:
    """Whether an interaction's gradients, by tokens and by events, are those of its function."""
    rows, x_BND = random_rows(lengths), random_context(len(lengths)).requires_grad_()
    surface_B = torch.zeros(len(lengths), dtype=torch.int64)

    def run(x: Tensor, value_TD: Tensor) -> Tensor:
        return model(x, replace(rows, value_TD=value_TD), surface_B)

    return torch.autograd.gradcheck(run, (x_BND, rows.value_TD.clone().requires_grad_()))
