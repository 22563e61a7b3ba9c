"""Every row is in one batch; batches are even in examples or in events; users stay together where they share."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from gem_pipeline.batches.batching import batch_rows, expected_batches
from gem_pipeline.batches.settings import ReaderConfig

_rows = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 30)), min_size=1, max_size=40)
_seeds = st.one_of(st.none(), st.integers(0, 9))


def part_of(rows):
    """What batching sees of a part: users in storage order and the lengths of their windows."""
    users, lengths = np.array(sorted(rows)).T
    return SimpleNamespace(
        user_N=users,
        as_of_N=lengths // 10,
        learnt_rows=np.arange(len(users)),
        window=SimpleNamespace(lengths=lengths),
    )


def cut(part, config, seed, batch_size=4):
    generator = None if seed is None else np.random.default_rng(seed)
    return batch_rows(part, batch_size=batch_size, config=config, generator=generator)


@settings(max_examples=200)
@given(rows=_rows, seed=_seeds, share=st.booleans(), budget=st.one_of(st.just(0), st.integers(1, 60)))
def test_every_row_is_in_exactly_one_batch_and_the_same_seed_cuts_the_same(rows, seed, share, budget):
    part, config = part_of(rows), ReaderConfig(share_histories=share, batch_events=budget)
    batches = cut(part, config, seed)
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(rows)))
    assert min(len(batch) for batch in batches) >= 1
    assert [b.tolist() for b in batches] == [b.tolist() for b in cut(part, config, seed)]


@settings(max_examples=200)
@given(rows=_rows, seed=_seeds, budget=st.integers(1, 60))
def test_a_batch_holds_the_budget_less_at_most_one_example(rows, seed, budget):
    part = part_of(rows)
    costs = [1 + part.window.lengths[batch] for batch in cut(part, ReaderConfig(batch_events=budget), seed)]
    for cost in costs:
        assert cost.sum() <= budget or len(cost) == 1
    for cost, following in pairwise(costs):
        assert cost.sum() + following[0] > budget


@settings(max_examples=100)
@given(rows=_rows, seed=st.integers(0, 9))
def test_where_histories_are_shared_a_user_is_not_scattered(rows, seed):
    part = part_of(rows)
    order = np.concatenate(cut(part, ReaderConfig(share_histories=True), seed))
    users = part.user_N[order]
    assert np.count_nonzero(np.diff(users)) == len(np.unique(users)) - 1


@settings(max_examples=100)
@given(rows=_rows, seed=st.integers(0, 9))
def test_a_request_may_stay_together_without_its_user(rows, seed):
    part = part_of(rows)
    config = ReaderConfig(share_histories=True, keep_together="request")
    order = np.concatenate(cut(part, config, seed))
    assert sorted(order.tolist()) == list(range(len(rows)))
    asked = list(zip(part.user_N[order], part.as_of_N[order], strict=True))
    assert sum(one != other for one, other in pairwise(asked)) == len(set(asked)) - 1


@given(rows=_rows, budget=st.integers(40, 90))
def test_the_expected_number_is_exact_by_examples_and_a_lower_bound_by_events(rows, budget):
    part = part_of(rows)
    amounts = {"sizes": [len(rows)], "costs": [len(rows) + int(part.window.lengths.sum())], "batch_size": 4}
    assert expected_batches(**amounts, config=ReaderConfig()) == len(cut(part, ReaderConfig(), 0))
    by_events = ReaderConfig(batch_events=budget)
    assert expected_batches(**amounts, config=by_events) <= len(cut(part, by_events, 0))


def test_shuffling_depends_on_the_seed():
    part = part_of([(0, 1)] * 30)
    assert cut(part, ReaderConfig(), 1)[0].tolist() != cut(part, ReaderConfig(), 2)[0].tolist()
