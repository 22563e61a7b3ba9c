"""Length groups move rows about and put them back exactly where they were."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gem_pipeline.kernels.grouping import MIN_GROUP_ROWS, group_rows, grouped_padding, real_places
from gem_pipeline.kernels.jagged import lengths_to_offsets


@settings(max_examples=20)
@given(st.lists(st.integers(0, 9), min_size=1, max_size=3 * MIN_GROUP_ROWS))
def test_grouping_and_padding_are_undone_exactly(lengths: list[int]) -> None:
    offsets_B1 = lengths_to_offsets(torch.tensor(lengths))
    groups = group_rows(offsets_B1)
    rows_B = torch.arange(len(lengths)).double()
    assert torch.equal(groups.join(list(groups.cut(rows_B))), rows_B)
    x_TD = torch.arange(float(sum(lengths)))[:, None]
    padding = grouped_padding(offsets_B1, groups, sum(lengths))
    assert torch.equal(padding.unpad(padding.pad(x_TD)), x_TD)


def test_a_group_is_padded_to_its_own_longest_row_only() -> None:
    lengths = [1] * MIN_GROUP_ROWS + [50] * MIN_GROUP_ROWS
    offsets_B1 = lengths_to_offsets(torch.tensor(lengths))
    padding = grouped_padding(offsets_B1, group_rows(offsets_B1), sum(lengths))
    assert padding.shapes == ((MIN_GROUP_ROWS, 1), (MIN_GROUP_ROWS, 50))


def test_a_group_of_empty_rows_keeps_one_padded_place() -> None:
    offsets_B1 = torch.zeros(4, dtype=torch.int64)
    assert grouped_padding(offsets_B1, group_rows(offsets_B1), 0).shapes == ((3, 1),)


def test_real_places_name_the_elements_of_each_row() -> None:
    assert real_places(torch.tensor([0, 2]), 3).tolist() == [[False] * 3, [True, True, False]]
