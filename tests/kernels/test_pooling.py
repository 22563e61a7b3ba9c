"""Seeds pool a row by its own elements, and the Kronecker sum equals the full matrix it stands for."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gem_pipeline.kernels.pooling import hierarchical_seed_pool, jagged_seed_attention, sum_kron
from tests.kernels.jagged_cases import HEADS, TIGHT, WIDTH, draw, in_new_order, offsets, triple
from tests.oracles import kernels as oracle

FULL = HEADS * WIDTH


@settings(max_examples=25)
@given(st.lists(st.integers(0, 7), min_size=1, max_size=6), st.integers(0, 100))
def test_seed_attention_equals_a_softmax_over_each_row(lengths: list[int], seed: int) -> None:
    _, k, v = triple(lengths, seed)
    seeds = draw(3, HEADS, WIDTH, seed=seed)
    found = jagged_seed_attention(seeds, k, v, offsets(lengths))
    torch.testing.assert_close(found, oracle.seed_attention(seeds, k, v, offsets(lengths)), **TIGHT)


def test_the_kronecker_sum_equals_its_full_matrix() -> None:
    h, mix, weight = draw(3, 5, FULL), draw(2, 5, 4, seed=1), draw(2, FULL, FULL, seed=2)
    torch.testing.assert_close(sum_kron(h, mix, weight), oracle.sum_kron(h, mix, weight), **TIGHT)


def test_the_whole_pooling_equals_both_steps_and_is_zero_without_events() -> None:
    lengths = [4, 0, 2]
    _, k, v = triple(lengths)
    seeds, mix, weight = draw(5, HEADS, WIDTH, seed=7), draw(2, 5, 3, seed=8), draw(2, FULL, FULL, seed=9)
    found = hierarchical_seed_pool(seeds, k, v, offsets(lengths), mix, weight)
    inner = oracle.seed_attention(seeds, k, v, offsets(lengths)).flatten(2)
    torch.testing.assert_close(found, oracle.sum_kron(inner, mix, weight), **TIGHT)
    assert not found[1].any()


def test_gradients_of_the_whole_pooling_are_exact() -> None:
    lengths = [3, 0, 16]
    _, k, v = triple(lengths)
    leaves = (draw(3, 1, 2), k[:, :1, :2].contiguous(), v[:, :1, :2].contiguous(), draw(2, 3, 2), draw(2, 2, 2))
    leaves = tuple(leaf.requires_grad_() for leaf in leaves)
    assert torch.autograd.gradcheck(
        lambda seed, k, v, z, w: hierarchical_seed_pool(seed, k, v, offsets(lengths), z, w), leaves
    )


@settings(max_examples=20)
@given(st.lists(st.sampled_from([0, 1, 3, 40, 1500, 5000]), min_size=1, max_size=5), st.data())
def test_a_row_is_pooled_the_same_in_any_batch_and_order(lengths: list[int], data: st.DataObject) -> None:
    order = data.draw(st.lists(st.integers(0, len(lengths) - 1), min_size=1, max_size=3))
    _, k, v = triple(lengths)
    seeds = draw(3, HEADS, WIDTH)
    together = jagged_seed_attention(seeds, k, v, offsets(lengths))[order]
    picked = [lengths[row] for row in order]
    moved = jagged_seed_attention(
        seeds, in_new_order(k, lengths, order), in_new_order(v, lengths, order), offsets(picked)
    )
    torch.testing.assert_close(moved, together, **TIGHT)
