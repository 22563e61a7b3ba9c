"""Near attention equals its equations, costs nothing across rows, and a row never knows its batch."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.flop_counter import FlopCounterMode

from gem_pipeline.errors import ConfigError
from gem_pipeline.kernels.attention import jagged_attention
from gem_pipeline.kernels.windowed import block_offsets, jagged_block_attention, jagged_window_attention
from tests.kernels.jagged_cases import TIGHT, gap_to_batch_of, offsets, triple
from tests.oracles import kernels as oracle

LENGTHS = st.lists(st.integers(0, 9), min_size=1, max_size=5)
REACH = st.integers(1, 5)
OPERATORS = {
    "block": lambda q, k, v, o: jagged_block_attention(q, k, v, o, block=64),
    "window": lambda q, k, v, o: jagged_window_attention(q, k, v, o, window=48),
}


@settings(max_examples=25)
@given(LENGTHS, REACH, st.integers(0, 100))
def test_block_attention_equals_a_softmax_over_each_block(lengths: list[int], block: int, seed: int) -> None:
    q, k, v = triple(lengths, seed)
    expected = oracle.block_attention(q, k, v, offsets(lengths), block)
    torch.testing.assert_close(jagged_block_attention(q, k, v, offsets(lengths), block=block), expected, **TIGHT)


@settings(max_examples=25)
@given(LENGTHS, REACH, st.integers(0, 100))
def test_window_attention_equals_a_softmax_over_each_neighbourhood(lengths: list[int], window: int, seed: int) -> None:
    q, k, v = triple(lengths, seed)
    expected = oracle.window_attention(q, k, v, offsets(lengths), window)
    torch.testing.assert_close(jagged_window_attention(q, k, v, offsets(lengths), window=window), expected, **TIGHT)


@pytest.mark.parametrize("operator", OPERATORS.values(), ids=list(OPERATORS))
def test_a_row_is_the_same_in_any_batch_and_order_up_to_thousands_of_events(operator) -> None:
    lengths = [0, 5000, 1, 64, 1300, 0, 65, 47, 2, 999]
    assert gap_to_batch_of(operator, lengths, [9, 4, 0, 1]) < 1e-10
    assert gap_to_batch_of(operator, lengths, [1]) < 1e-10


@settings(max_examples=20)
@given(st.lists(st.integers(0, 200), min_size=1, max_size=6), st.data())
def test_any_batch_of_a_rows_choice_gives_the_row_its_own_result(lengths: list[int], data: st.DataObject) -> None:
    order = data.draw(st.lists(st.integers(0, len(lengths) - 1), max_size=4))
    for operator in OPERATORS.values():
        assert gap_to_batch_of(operator, lengths, order) < 1e-10


def test_a_reach_beyond_the_row_is_full_attention() -> None:
    lengths = [7, 0, 3, 16]
    q, k, v = triple(lengths)
    full = jagged_attention(q, k, v, offsets(lengths), offsets(lengths))
    torch.testing.assert_close(jagged_block_attention(q, k, v, offsets(lengths), block=16), full, **TIGHT)
    torch.testing.assert_close(jagged_window_attention(q, k, v, offsets(lengths), window=16), full, **TIGHT)


def test_blocks_are_counted_from_the_newest_element() -> None:
    assert block_offsets(offsets([5, 0, 4, 1]), 2).tolist() == [0, 1, 3, 5, 7, 9, 10]
    assert block_offsets(offsets([0]), 2).tolist() == [0]


@pytest.mark.parametrize("operator", OPERATORS.values(), ids=list(OPERATORS))
def test_gradients_are_exact(operator) -> None:
    lengths = [3, 0, 1, 16]
    leaves = tuple(x[:, :1, :2].contiguous().requires_grad_() for x in triple(lengths))
    near = jagged_block_attention if operator is OPERATORS["block"] else jagged_window_attention
    name = "block" if near is jagged_block_attention else "window"
    assert torch.autograd.gradcheck(lambda q, k, v: near(q, k, v, offsets(lengths), **{name: 3}), leaves)


@pytest.mark.parametrize("operator", OPERATORS.values(), ids=list(OPERATORS))
def test_cost_grows_linearly_with_the_length(operator) -> None:
    def flops(length: int) -> int:
        q, k, v = triple([length])
        with (
            FlopCounterMode(display=False) as counter,
            torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH),
        ):
            operator(q, k, v, offsets([length]))
        return counter.get_total_flops()

    assert flops(4096) <= 4.3 * flops(1024)


@pytest.mark.parametrize("lengths", [[0], [0, 0]])
def test_batches_without_elements_keep_their_shape(lengths: list[int]) -> None:
    q, k, v = triple(lengths)
    for operator in OPERATORS.values():
        assert operator(q, k, v, offsets(lengths)).shape == q.shape


def test_a_reach_of_nobody_is_refused() -> None:
    q, k, v = triple([2])
    with pytest.raises(ConfigError):
        jagged_block_attention(q, k, v, offsets([2]), block=0)
    with pytest.raises(ConfigError):
        jagged_window_attention(q, k, v, offsets([2]), window=0)
