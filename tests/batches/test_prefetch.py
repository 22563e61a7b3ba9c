"""Items are made in order, ahead of their use, never more than allowed, and the thread ends with the iterator."""

from __future__ import annotations

import threading
import weakref

import pytest

from gem_pipeline.batches.prefetch import prefetched


class Thing:
    """Something whose life can be watched."""


@pytest.mark.parametrize("ahead", [0, 1, 3])
def test_items_come_in_order_whatever_is_made_ahead(ahead):
    assert list(prefetched(lambda key: key * key, range(6), ahead=ahead)) == [0, 1, 4, 9, 16, 25]
    assert list(prefetched(str, (), ahead=ahead)) == []


def test_the_next_item_is_made_while_the_current_one_is_used():
    made = {number: threading.Event() for number in range(3)}
    items = prefetched(lambda number: made[number].set(), range(3), ahead=1)
    next(items)
    assert made[1].wait(timeout=10)
    assert not made[2].is_set()
    items.close()


@pytest.mark.parametrize("ahead", [0, 1, 2])
def test_no_more_items_are_alive_than_the_used_one_and_those_ahead(ahead):
    alive: weakref.WeakSet[Thing] = weakref.WeakSet()
    most = 0

    def make(_: int) -> Thing:
        nonlocal most
        thing = Thing()
        alive.add(thing)
        most = max(most, len(alive))
        return thing

    used = None
    items = prefetched(make, range(8), ahead=ahead)
    while True:
        used = None
        used = next(items, None)
        if used is None:
            break
    assert most <= 1 + ahead


@pytest.mark.parametrize("ahead", [0, 1, 2])
def test_an_error_is_raised_where_its_item_would_have_come(ahead):
    def make(number: int) -> int:
        if number == 2:
            raise ValueError("the third item")
        return number

    items = prefetched(make, range(5), ahead=ahead)
    assert [next(items), next(items)] == [0, 1]
    with pytest.raises(ValueError, match="the third item"):
        next(items)
    assert list(items) == []


def test_closing_early_ends_the_thread_and_makes_no_more():
    made = []
    items = prefetched(made.append, range(100), ahead=2)
    next(items)
    items.close()
    assert len(made) <= 3
    assert not [t for t in threading.enumerate() if t.name.startswith("prefetch")]
