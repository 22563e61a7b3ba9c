"""Jagged tensors: rows of unequal length stored back to back, with offsets.

Legend: B rows, T elements of the whole batch, D width, L padded length, C prefix tokens, K newest
elements kept a row, B1 = B + 1. Row b owns the elements offsets[b] ... offsets[b + 1] - 1, oldest first.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

ROTARY_BASE = 10_000.0


def lengths_to_offsets(lengths_B: Tensor) -> Tensor:
    """Turn row lengths [B] into offsets [B + 1], int64, starting at 0."""
    zero_1 = torch.zeros(1, dtype=torch.int64, device=lengths_B.device)
    return torch.cat([zero_1, torch.cumsum(lengths_B, dim=0, dtype=torch.int64)])


def offsets_to_lengths(offsets_B1: Tensor) -> Tensor:
    """Turn offsets [B + 1] into row lengths [B]."""
    return offsets_B1[1:] - offsets_B1[:-1]


def row_of_element(offsets_B1: Tensor, num_elements: int) -> Tensor:
    """Name the row of each element, int64 [T]; `num_elements` is T."""
    rows_B = torch.arange(offsets_B1.shape[0] - 1, device=offsets_B1.device)
    return torch.repeat_interleave(rows_B, offsets_to_lengths(offsets_B1), output_size=num_elements)


def age_of_element(offsets_B1: Tensor, row_T: Tensor) -> Tensor:
    """Count how many newer elements of its row follow each element, int64 [T]; the newest has age 0."""
    index_T = torch.arange(row_T.shape[0], device=offsets_B1.device)
    return offsets_B1[1:].index_select(0, row_T) - 1 - index_T


def max_length(offsets_B1: Tensor) -> int:
    """Length of the longest row; 0 for a batch without rows."""
    return int(offsets_to_lengths(offsets_B1).max()) if offsets_B1.shape[0] > 1 else 0


class _Spread(torch.autograd.Function):
    """Write rows to distinct places of a zero tensor; its gradient reads them back (ours)."""

    @staticmethod
    def forward(ctx: Any, x_TD: Tensor, place_T: Tensor, num_places: int) -> Tensor:
        ctx.save_for_backward(place_T)
        return x_TD.new_zeros(num_places, *x_TD.shape[1:]).index_copy_(0, place_T, x_TD)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        (place_T,) = ctx.saved_tensors
        return _Collect.apply(grads[0], place_T), None, None


class _Collect(torch.autograd.Function):
    """Read rows from distinct places; its gradient writes them back without a slow scatter-add (ours)."""

    @staticmethod
    def forward(ctx: Any, x_PD: Tensor, place_T: Tensor) -> Tensor:
        ctx.save_for_backward(place_T)
        ctx.num_places = x_PD.shape[0]
        return x_PD.index_select(0, place_T)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        (place_T,) = ctx.saved_tensors
        return _Spread.apply(grads[0], place_T, ctx.num_places), None


def spread(x_TD: Tensor, place_T: Tensor, num_places: int) -> Tensor:
    """Write element t to place[t] of a zero tensor [num_places, ...]; places must be distinct."""
    return _Spread.apply(x_TD, place_T, num_places)


def collect(x_PD: Tensor, place_T: Tensor) -> Tensor:
    """Read x[place[t]] for every t, [T, ...]; places must be distinct (the gradient relies on it)."""
    return _Collect.apply(x_PD, place_T)


def jagged_to_padded(x_TD: Tensor, offsets_B1: Tensor, length: int) -> Tensor:
    """Lay jagged rows out as [B, length, ...], zeros behind the end of a row.

    Args:
        x_TD: elements, [T, ...].
        offsets_B1: row offsets, int64 [B + 1], last entry T.
        length: padded length, at least the longest row.
    """
    num_rows = offsets_B1.shape[0] - 1
    place_T = _padded_place(offsets_B1, x_TD.shape[0], length)
    return spread(x_TD, place_T, num_rows * length).view(num_rows, length, *x_TD.shape[1:])


def padded_to_jagged(x_BLD: Tensor, offsets_B1: Tensor, num_elements: int) -> Tensor:
    """Take the elements of each row out of [B, L, ...]: the inverse of `jagged_to_padded`, [T, ...]."""
    return collect(x_BLD.flatten(0, 1), _padded_place(offsets_B1, num_elements, x_BLD.shape[1]))


def _padded_place(offsets_B1: Tensor, num_elements: int, length: int) -> Tensor:
    """Place of each element in a flattened [B, length] grid, int64 [T]."""
    row_T = row_of_element(offsets_B1, num_elements)
    index_T = torch.arange(num_elements, device=offsets_B1.device)
    return index_T + row_T * length - offsets_B1[:-1].index_select(0, row_T)


def prepend(prefix_BCD: Tensor, x_TD: Tensor, offsets_B1: Tensor) -> tuple[Tensor, Tensor]:
    """Put C tokens in front of every jagged row.

    Args:
        prefix_BCD: tokens of each row, [B, C, D].
        x_TD: elements, [T, D].
        offsets_B1: row offsets, int64 [B + 1].

    Returns:
        The longer elements [T + B * C, D] and their offsets [B + 1].
    """
    num_rows, num_prefix = prefix_BCD.shape[:2]
    shift_B1 = torch.arange(num_rows + 1, device=offsets_B1.device) * num_prefix
    row_T = row_of_element(offsets_B1, x_TD.shape[0])
    event_place_T = torch.arange(x_TD.shape[0], device=x_TD.device) + (row_T + 1) * num_prefix
    prefix_place_BC = (offsets_B1[:-1] + shift_B1[:-1])[:, None] + torch.arange(num_prefix, device=x_TD.device)
    place = torch.cat([prefix_place_BC.flatten(), event_place_T])
    joined = torch.cat([prefix_BCD.flatten(0, 1), x_TD])
    return spread(joined, place, joined.shape[0]), offsets_B1 + shift_B1


def leading(x_TD: Tensor, offsets_B1: Tensor, count: int) -> Tensor:
    """Take the first `count` elements of every row, [B, count, D]; every row must have them."""
    place_BC = offsets_B1[:-1, None] + torch.arange(count, device=x_TD.device)
    return collect(x_TD, place_BC.flatten()).view(offsets_B1.shape[0] - 1, count, *x_TD.shape[1:])


def newest_index(offsets_B1: Tensor, num_kept: int, num_elements: int) -> tuple[Tensor, Tensor]:
    """Find the newest `num_kept` elements of each row.

    Returns:
        Their positions in the jagged tensor, int64, still oldest first, and the offsets [B + 1] of
        what is kept.
    """
    age_T = age_of_element(offsets_B1, row_of_element(offsets_B1, num_elements))
    kept_B1 = lengths_to_offsets(offsets_to_lengths(offsets_B1).clamp(max=num_kept))
    return torch.nonzero(age_T < num_kept).flatten(), kept_B1


def newest_padded(x_TD: Tensor, offsets_B1: Tensor, num_kept: int, *, skip: int = 0) -> Tensor:
    """Lay the newest elements of each row out, newest first, zeros where a row has fewer.

    Args:
        x_TD: elements, [T, D].
        offsets_B1: row offsets, int64 [B + 1].
        num_kept: slots a row, K.
        skip: so many leading elements of each row (CLS tokens) never count as recent.

    Returns:
        [B, K, D].
    """
    place_BK = offsets_B1[1:, None] - 1 - torch.arange(num_kept, device=x_TD.device)
    real_BK = place_BK >= (offsets_B1[:-1, None] + skip)
    slot = torch.nonzero(real_BK.flatten()).flatten()
    kept = collect(x_TD, place_BK.flatten().index_select(0, slot))
    return spread(kept, slot, place_BK.numel()).view(*place_BK.shape, *x_TD.shape[1:])


def rotary_phase(position_T: Tensor, head_dim: int, dtype: torch.dtype) -> Tensor:
    """Rotary phase exp(i * position * frequency) of each element, complex [T, 1, head_dim / 2].

    Args:
        position_T: integer positions, at least 0, [T].
        head_dim: even width of a head.
        dtype: real type of what will be rotated; half types rotate in float32.

    Source: Su et al., RoFormer, arXiv 2104.09864, section 3.2.
    """
    pair_H = torch.arange(head_dim // 2, device=position_T.device, dtype=torch.float64)
    frequency_H = ROTARY_BASE ** (-2.0 * pair_H / head_dim)
    num_positions = int(position_T.max()) + 1 if position_T.shape[0] else 1
    angle_PH = torch.arange(num_positions, device=position_T.device, dtype=torch.float64)[:, None] * frequency_H
    wide = torch.complex128 if dtype == torch.float64 else torch.complex64
    phase_PH = torch.polar(torch.ones_like(angle_PH), angle_PH).to(wide)  # few positions, many elements
    return phase_PH.index_select(0, position_T)[:, None, :]


def rotate(x_THD: Tensor, phase_T1H: Tensor) -> Tensor:
    """Turn each pair (x[2 i], x[2 i + 1]) of every head by its phase; [T, H, D] in and out.

    A pair is one complex number here: a single multiplication, 7 times faster on a CPU than slicing
    the pairs apart.
    """
    real = torch.float64 if phase_T1H.dtype == torch.complex128 else torch.float32
    pair_THP = torch.view_as_complex(x_THD.to(real).unflatten(-1, (-1, 2)).contiguous())
    return torch.view_as_real(pair_THP * phase_T1H).flatten(-2).to(x_THD.dtype)
