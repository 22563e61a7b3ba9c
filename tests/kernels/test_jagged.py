"""Jagged tensors keep every element in its row, whatever the lengths."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gem_pipeline.kernels import jagged
from tests.oracles import attention as oracle

LENGTHS = st.lists(st.integers(0, 6), min_size=1, max_size=8)
FAST = settings(max_examples=30)


def elements(num_elements: int, width: int = 3, *, seed: int = 0) -> torch.Tensor:
    return torch.randn(num_elements, width, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@FAST
@given(LENGTHS)
def test_offsets_and_lengths_are_inverse(lengths: list[int]) -> None:
    lengths_B = torch.tensor(lengths)
    offsets_B1 = jagged.lengths_to_offsets(lengths_B)
    assert offsets_B1[0] == 0
    assert offsets_B1[-1] == sum(lengths)
    assert torch.equal(jagged.offsets_to_lengths(offsets_B1), lengths_B)


@FAST
@given(LENGTHS, st.integers(0, 3))
def test_padding_and_unpadding_is_the_identity_and_pads_with_zeros(lengths: list[int], extra: int) -> None:
    offsets_B1 = jagged.lengths_to_offsets(torch.tensor(lengths))
    x_TD = elements(sum(lengths))
    padded = jagged.jagged_to_padded(x_TD, offsets_B1, jagged.max_length(offsets_B1) + extra)
    for row, original in zip(padded, oracle.rows_of(x_TD, offsets_B1), strict=True):
        assert torch.equal(row[: original.shape[0]], original)
        assert not row[original.shape[0] :].any()
    assert torch.equal(jagged.padded_to_jagged(padded, offsets_B1, sum(lengths)), x_TD)


@FAST
@given(LENGTHS)
def test_rows_and_ages_match_a_loop(lengths: list[int]) -> None:
    offsets_B1 = jagged.lengths_to_offsets(torch.tensor(lengths))
    row_T = jagged.row_of_element(offsets_B1, sum(lengths))
    assert row_T.tolist() == [row for row, length in enumerate(lengths) for _ in range(length)]
    ages = [length - 1 - place for length in lengths for place in range(length)]
    assert jagged.age_of_element(offsets_B1, row_T).tolist() == ages


@FAST
@given(LENGTHS, st.integers(1, 3))
def test_prepended_tokens_lead_their_own_row(lengths: list[int], count: int) -> None:
    offsets_B1 = jagged.lengths_to_offsets(torch.tensor(lengths))
    x_TD, prefix_BCD = elements(sum(lengths)), elements(len(lengths) * count, seed=1).view(len(lengths), count, 3)
    longer, longer_offsets_B1 = jagged.prepend(prefix_BCD, x_TD, offsets_B1)
    rows = zip(prefix_BCD, oracle.rows_of(x_TD, offsets_B1), strict=True)
    assert torch.equal(longer, torch.cat([torch.cat(pair) for pair in rows]))
    assert torch.equal(jagged.leading(longer, longer_offsets_B1, count), prefix_BCD)


@FAST
@given(LENGTHS, st.integers(1, 4))
def test_newest_index_keeps_the_tail_of_each_row_in_order(lengths: list[int], kept: int) -> None:
    offsets_B1 = jagged.lengths_to_offsets(torch.tensor(lengths))
    index, kept_offsets_B1 = jagged.newest_index(offsets_B1, kept, sum(lengths))
    tails = [row[-kept:] for row in oracle.rows_of(torch.arange(sum(lengths)), offsets_B1)]
    assert index.tolist() == torch.cat(tails).tolist()
    assert jagged.offsets_to_lengths(kept_offsets_B1).tolist() == [min(kept, length) for length in lengths]


@FAST
@given(LENGTHS, st.integers(1, 4), st.integers(0, 1))
def test_newest_padded_is_newest_first_with_zeros_behind(lengths: list[int], kept: int, skip: int) -> None:
    lengths = [length + skip for length in lengths]
    offsets_B1 = jagged.lengths_to_offsets(torch.tensor(lengths))
    x_TD = elements(sum(lengths))
    result = jagged.newest_padded(x_TD, offsets_B1, kept, skip=skip)
    for row, original in zip(result, oracle.rows_of(x_TD, offsets_B1), strict=True):
        newest = original[skip:].flip(0)[:kept]
        assert torch.equal(row[: newest.shape[0]], newest)
        assert not row[newest.shape[0] :].any()


def test_rotation_matches_rotation_matrices_and_keeps_lengths() -> None:
    x_THD = elements(5, 16).view(5, 2, 8)
    positions = torch.tensor([0, 1, 2, 7, 63])
    turned = jagged.rotate(x_THD, jagged.rotary_phase(positions, 8, torch.float64))
    expected = torch.stack([oracle.rotate(x, int(p)) for x, p in zip(x_THD, positions, strict=True)])
    torch.testing.assert_close(turned, expected, rtol=0, atol=1e-12)
    torch.testing.assert_close(turned.norm(dim=-1), x_THD.norm(dim=-1))


def test_scores_of_rotated_vectors_depend_on_the_distance_only() -> None:
    q, k = elements(1, 8).view(1, 1, 8), elements(1, 8, seed=1).view(1, 1, 8)

    def score(query_position: int, key_position: int) -> torch.Tensor:
        phases = (jagged.rotary_phase(torch.tensor([p]), 8, torch.float64) for p in (query_position, key_position))
        return (jagged.rotate(q, next(phases)) * jagged.rotate(k, next(phases))).sum()

    torch.testing.assert_close(score(3, 10), score(20, 27))


def test_half_precision_keeps_its_type_through_a_rotation() -> None:
    x_THD = torch.randn(2, 1, 4).to(torch.bfloat16)
    assert jagged.rotate(x_THD, jagged.rotary_phase(torch.tensor([0, 3]), 4, x_THD.dtype)).dtype == torch.bfloat16


def test_gradients_of_spread_and_collect_are_exact() -> None:
    place_T = torch.tensor([4, 0, 2])
    x_TD = elements(3).requires_grad_()
    y_PD = elements(5).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: jagged.spread(x, place_T, 5), (x_TD,))
    assert torch.autograd.gradcheck(lambda y: jagged.collect(y, place_T), (y_PD,))
    assert torch.autograd.gradgradcheck(lambda x: jagged.spread(x, place_T, 5) ** 2, (x_TD,))
