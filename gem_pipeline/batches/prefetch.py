"""Make the next items in the background while the current one is used."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import TypeVar

Key = TypeVar("Key")
Made = TypeVar("Made")


def prefetched(make: Callable[[Key], Made], keys: Iterable[Key], *, ahead: int) -> Generator[Made]:
    """Yield `make(key)` for every key, in order, made by one background thread.

    At most `ahead` items are finished or being made beside the one that was yielded last. An error is raised
    where its item would have been yielded. Closing the iterator waits for the item that is being made, and makes
    no more.

    Args:
        make: called from one thread at a time.
        keys: what to make.
        ahead: items made ahead; 0: each is made when it is asked for, without a thread.
    """
    if ahead == 0:
        yield from map(make, keys)
        return
    left = iter(keys)
    pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="prefetch")
    try:
        waiting: deque[Future[Made]] = deque(pool.submit(make, key) for key in islice(left, ahead))
        while waiting:
            made = waiting.popleft().result()
            waiting.extend(pool.submit(make, key) for key in islice(left, 1))
            yield made
            del made  # the caller's is the only reference while the next one is waited for
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
