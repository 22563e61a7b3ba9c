"""Jagged attention equals one softmax a row, and no row knows of another."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from gem_pipeline.kernels.attention import jagged_attention, jagged_row_matmul, jagged_softmax_pool
from gem_pipeline.kernels.grouping import MIN_GROUP_ROWS
from gem_pipeline.kernels.jagged import lengths_to_offsets
from tests.oracles import attention as oracle

PAIRS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=7)
HEADS, WIDTH = 2, 4
TIGHT = {"rtol": 0.0, "atol": 1e-10}


def draw(num_elements: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(num_elements, HEADS, WIDTH, generator=generator, dtype=torch.float64)


def offsets(lengths: list[int]) -> Tensor:
    return lengths_to_offsets(torch.tensor(lengths, dtype=torch.int64))


def inputs(pairs: list[tuple[int, int]], seed: int = 0) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    q_offsets, kv_offsets = offsets([q for q, _ in pairs]), offsets([kv for _, kv in pairs])
    num_queries, num_keys = int(q_offsets[-1]), int(kv_offsets[-1])
    return draw(num_queries, seed), draw(num_keys, seed + 1), draw(num_keys, seed + 2), q_offsets, kv_offsets


@settings(max_examples=25)
@given(PAIRS, st.integers(0, 1000))
def test_attention_equals_a_softmax_over_each_row(pairs: list[tuple[int, int]], seed: int) -> None:
    torch.testing.assert_close(
        jagged_attention(*inputs(pairs, seed)), oracle.jagged_attention(*inputs(pairs, seed)), **TIGHT
    )


def test_attention_equals_its_oracle_when_rows_fall_into_several_length_groups() -> None:
    pairs = [(row % 3, (row * 7) % 5) for row in range(3 * MIN_GROUP_ROWS)]
    torch.testing.assert_close(jagged_attention(*inputs(pairs)), oracle.jagged_attention(*inputs(pairs)), **TIGHT)


@settings(max_examples=25)
@given(PAIRS, st.randoms(use_true_random=False))
def test_reordering_rows_reorders_the_result(pairs: list[tuple[int, int]], random: st.DataObject) -> None:
    q, k, v, q_offsets, kv_offsets = inputs(pairs)
    order = list(range(len(pairs)))
    random.shuffle(order)

    def shuffled(x: Tensor, bounds: Tensor) -> Tensor:
        rows = oracle.rows_of(x, bounds)
        return torch.cat([rows[row] for row in order])

    moved = jagged_attention(
        shuffled(q, q_offsets),
        shuffled(k, kv_offsets),
        shuffled(v, kv_offsets),
        offsets([pairs[row][0] for row in order]),
        offsets([pairs[row][1] for row in order]),
    )
    expected = shuffled(jagged_attention(q, k, v, q_offsets, kv_offsets), q_offsets)
    torch.testing.assert_close(moved, expected, **TIGHT)


@settings(max_examples=25)
@given(PAIRS, st.floats(-1e6, 1e6))
def test_values_of_other_rows_change_nothing(pairs: list[tuple[int, int]], noise: float) -> None:
    q, k, v, q_offsets, kv_offsets = inputs(pairs)
    before = oracle.rows_of(jagged_attention(q, k, v, q_offsets, kv_offsets), q_offsets)[0]
    own_keys, own_queries = pairs[0][1], pairs[0][0]
    loud_k = torch.cat([k[:own_keys], k[own_keys:] + noise])
    loud_v = torch.cat([v[:own_keys], v[own_keys:] - noise])
    loud_q = torch.cat([q[:own_queries], q[own_queries:] * noise])
    after = oracle.rows_of(jagged_attention(loud_q, loud_k, loud_v, q_offsets, kv_offsets), q_offsets)[0]
    torch.testing.assert_close(after, before, **TIGHT)


@settings(max_examples=15)
@given(PAIRS)
def test_a_row_alone_gives_what_it_gives_in_a_batch(pairs: list[tuple[int, int]]) -> None:
    q, k, v, q_offsets, kv_offsets = inputs(pairs)
    together = oracle.rows_of(jagged_attention(q, k, v, q_offsets, kv_offsets), q_offsets)
    parts = zip(*(oracle.rows_of(x, o) for x, o in ((q, q_offsets), (k, kv_offsets), (v, kv_offsets))), strict=True)
    for (own_q, own_k, own_v), expected in zip(parts, together, strict=True):
        alone = jagged_attention(own_q, own_k, own_v, offsets([own_q.shape[0]]), offsets([own_k.shape[0]]))
        torch.testing.assert_close(alone, expected, **TIGHT)


def test_a_row_without_keys_gives_zeros_and_finite_gradients() -> None:
    q, k, v, q_offsets, kv_offsets = inputs([(2, 0), (1, 3)])
    leaves = [x.requires_grad_() for x in (q, k, v)]
    out = jagged_attention(*leaves, q_offsets, kv_offsets)
    out.sum().backward()
    assert not out[:2].any()
    assert all(torch.isfinite(leaf.grad).all() for leaf in leaves if leaf.grad is not None)


@pytest.mark.parametrize("pairs", [[(0, 0)], [(0, 3), (0, 0)], [(2, 0)]])
def test_batches_without_queries_or_without_keys_keep_their_shape(pairs: list[tuple[int, int]]) -> None:
    q, k, v, q_offsets, kv_offsets = inputs(pairs)
    assert jagged_attention(q, k, v, q_offsets, kv_offsets).shape == q.shape


def test_gradients_of_attention_are_exact() -> None:
    q, k, v, q_offsets, kv_offsets = inputs([(2, 3), (1, 0), (0, 2), (2, 1)])
    leaves = tuple(x.requires_grad_() for x in (q, k, v))
    assert torch.autograd.gradcheck(lambda q, k, v: jagged_attention(q, k, v, q_offsets, kv_offsets), leaves)


@settings(max_examples=20)
@given(st.lists(st.integers(0, 6), min_size=1, max_size=8))
def test_pooling_and_row_matmul_equal_their_loops(lengths: list[int]) -> None:
    bounds, num_elements = offsets(lengths), sum(lengths)
    score_TQ, x_TD = draw(num_elements, 0).flatten(1)[:, :3], draw(num_elements, 1).flatten(1)
    pooled = jagged_softmax_pool(score_TQ, x_TD, bounds)
    torch.testing.assert_close(pooled, oracle.softmax_pool(score_TQ, x_TD, bounds), **TIGHT)
    weight_BDE = torch.randn(len(lengths), x_TD.shape[1], 5, dtype=torch.float64)
    product = jagged_row_matmul(x_TD, weight_BDE, bounds)
    rows = zip(oracle.rows_of(x_TD, bounds), weight_BDE, strict=True)
    torch.testing.assert_close(product, torch.cat([row @ weight for row, weight in rows]), **TIGHT)


def test_gradients_of_pooling_are_exact_also_for_empty_rows() -> None:
    bounds = offsets([2, 0, 3])
    leaves = (draw(5, 0).flatten(1)[:, :2].contiguous().requires_grad_(), draw(5, 1).flatten(1).requires_grad_())
    assert torch.autograd.gradcheck(lambda score, x: jagged_softmax_pool(score, x, bounds), leaves)
