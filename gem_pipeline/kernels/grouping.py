"""Padding by length groups: rows of like length are padded together, so short rows cost little.

Legend: B rows, T elements of the whole batch, G groups, L padded length of one group, B1 = B + 1.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import torch
from torch import Tensor

from gem_pipeline.kernels.jagged import collect, offsets_to_lengths, row_of_element, spread

MAX_GROUPS = 8
MIN_GROUP_ROWS = 32  # below this the cost of one more operator call outweighs the padding it saves


@dataclass(frozen=True, kw_only=True)
class RowGroups:
    """Rows cut into groups of like length.

    Attributes:
        order_B: row numbers from short to long, int64 [B].
        rank_B: the place of each row in `order_B`, int64 [B].
        sizes: rows of each group, in that order.
    """

    order_B: Tensor
    rank_B: Tensor
    sizes: tuple[int, ...]

    def cut(self, x_BD: Tensor) -> tuple[Tensor, ...]:
        """Split a tensor with one entry a row into the groups, each [rows, ...]."""
        return torch.split(collect(x_BD, self.order_B), list(self.sizes))

    def join(self, parts: list[Tensor]) -> Tensor:
        """Put one entry a row back into the rows' own order: the inverse of `cut`, [B, ...]."""
        return collect(torch.cat(parts), self.rank_B)


@dataclass(frozen=True, kw_only=True)
class GroupedPadding:
    """Where each jagged element lies once every group is padded to its own longest row.

    Attributes:
        place_T: place in the flat storage of all groups, int64 [T].
        shapes: (rows, padded length) of each group; the length is at least 1.
    """

    place_T: Tensor
    shapes: tuple[tuple[int, int], ...]

    def pad(self, x_TD: Tensor) -> list[Tensor]:
        """Lay the elements out, one [rows, L, ...] a group, zeros behind the end of a row."""
        areas = [rows * length for rows, length in self.shapes]
        parts = torch.split(spread(x_TD, self.place_T, sum(areas)), areas)
        return [part.unflatten(0, shape) for part, shape in zip(parts, self.shapes, strict=True)]

    def unpad(self, parts: list[Tensor]) -> Tensor:
        """Take the elements back out of the groups: the inverse of `pad`, [T, ...]."""
        return collect(torch.cat([part.flatten(0, 1) for part in parts]), self.place_T)


def group_rows(offsets_B1: Tensor) -> RowGroups:
    """Sort rows by length and cut them into at most 8 groups of at least 32 rows (ours)."""
    order_B = torch.argsort(offsets_to_lengths(offsets_B1), stable=True)
    num_rows = order_B.shape[0]
    num_groups = max(1, min(MAX_GROUPS, num_rows // MIN_GROUP_ROWS))
    cuts = [num_rows * group // num_groups for group in range(num_groups + 1)]
    return RowGroups(
        order_B=order_B,
        rank_B=torch.argsort(order_B),
        sizes=tuple(end - start for start, end in itertools.pairwise(cuts)),
    )


def grouped_padding(offsets_B1: Tensor, groups: RowGroups, num_elements: int) -> GroupedPadding:
    """Plan the padding of jagged rows.

    Args:
        offsets_B1: rows of the elements, int64 [B + 1].
        groups: made from these rows, or from other elements of the same rows (keys and queries).
        num_elements: T.
    """
    length_B = offsets_to_lengths(offsets_B1)
    longest = [max(part.tolist(), default=1) for part in torch.split(length_B[groups.order_B], list(groups.sizes))]
    shapes = tuple((rows, max(1, length)) for rows, length in zip(groups.sizes, longest, strict=True))
    width_B = torch.repeat_interleave(torch.tensor([length for _, length in shapes]), torch.tensor(groups.sizes)).to(
        offsets_B1.device
    )
    start_B = (torch.cumsum(width_B, dim=0) - width_B)[groups.rank_B]
    row_T = row_of_element(offsets_B1, num_elements)
    index_T = torch.arange(num_elements, device=offsets_B1.device)
    return GroupedPadding(place_T=index_T + (start_B - offsets_B1[:-1])[row_T], shapes=shapes)


def real_places(length_R: Tensor, padded_length: int) -> Tensor:
    """Tell elements from padding: bool [R, L] for rows of the given lengths."""
    return torch.arange(padded_length, device=length_R.device) < length_R[:, None]
