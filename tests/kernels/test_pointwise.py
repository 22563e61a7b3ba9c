"""GDPA equals its double sum, for few keys a row and for the row's own elements as keys."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gem_pipeline.errors import ConfigError
from gem_pipeline.kernels import pointwise
from gem_pipeline.kernels.pointwise import ACTIVATIONS, gdpa
from tests.kernels.jagged_cases import HEADS, TIGHT, WIDTH, draw, gap_to_batch_of, offsets, triple
from tests.oracles import kernels as oracle

PAIRS = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 4)), min_size=1, max_size=5)


@settings(max_examples=25)
@given(PAIRS, st.sampled_from(sorted(ACTIVATIONS)), st.floats(0.1, 2.0), st.integers(0, 100))
def test_gdpa_equals_its_double_sum(pairs: list[tuple[int, int]], activation: str, scale: float, seed: int) -> None:
    q_offsets, kv_offsets = offsets([q for q, _ in pairs]), offsets([kv for _, kv in pairs])
    q = draw(int(q_offsets[-1]), HEADS, WIDTH, seed=seed)
    k, v = (draw(int(kv_offsets[-1]), HEADS, WIDTH, seed=seed + part) for part in (1, 2))
    found = gdpa(q, k, v, q_offsets, kv_offsets, activation=activation, scale=scale)
    torch.testing.assert_close(
        found, oracle.gdpa(q, k, v, q_offsets, kv_offsets, activation=activation, scale=scale), **TIGHT
    )


@pytest.mark.parametrize("activation", sorted(ACTIVATIONS))
def test_gradients_are_exact(activation: str) -> None:
    q_offsets, kv_offsets = offsets([3, 0, 16]), offsets([2, 2, 2])
    leaves = (draw(19, 1, 2).requires_grad_(), *(draw(6, 1, 2, seed=s).requires_grad_() for s in (1, 2)))
    assert torch.autograd.gradcheck(
        lambda q, k, v: gdpa(q, k, v, q_offsets, kv_offsets, activation=activation, scale=0.5), leaves
    )


def test_a_row_is_the_same_in_any_batch_and_order_up_to_thousands_of_events() -> None:
    lengths = [0, 5000, 1, 0, 700, 33]

    def own_keys(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, bounds: torch.Tensor) -> torch.Tensor:
        return gdpa(q, k, v, bounds, bounds, activation="silu", scale=1e-3)

    assert gap_to_batch_of(own_keys, lengths, [5, 4, 0]) < 1e-10


@settings(max_examples=20)
@given(st.lists(st.integers(0, 60), min_size=1, max_size=6), st.data())
def test_any_batch_of_a_rows_choice_gives_the_row_its_own_result(lengths: list[int], data: st.DataObject) -> None:
    order = data.draw(st.lists(st.integers(0, len(lengths) - 1), max_size=4))
    assert gap_to_batch_of(lambda q, k, v, o: gdpa(q, k, v, o, o, activation="gelu", scale=0.1), lengths, order) < 1e-10


def test_many_and_few_keys_follow_one_equation(monkeypatch) -> None:
    lengths = [130, 0, 70, 5]
    inputs = (*triple(lengths), offsets(lengths), offsets(lengths))
    grouped = gdpa(*inputs, activation="gelu", scale=0.1)
    monkeypatch.setattr(pointwise, "FEW_KEYS", 1000)
    torch.testing.assert_close(gdpa(*inputs, activation="gelu", scale=0.1), grouped, **TIGHT)


def test_a_query_without_keys_reads_zeros() -> None:
    q, k, v = triple([2])
    assert not gdpa(q, k[:0], v[:0], offsets([2]), offsets([0]), activation="gelu", scale=1.0).any()


def test_an_unknown_activation_is_refused() -> None:
    q, k, v = triple([2])
    with pytest.raises(ConfigError, match="gelu"):
        gdpa(q, k, v, offsets([2]), offsets([2]), activation="softmax", scale=1.0)
