"""Which examples of an encoded part go into which batch."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from gem_pipeline.batches.encoded_day import EncodedDay, requests
from gem_pipeline.batches.settings import ReaderConfig
from gem_pipeline.batches.slices import run_end

Longs = npt.NDArray[np.int64]


def batch_rows(
    part: EncodedDay, *, batch_size: int, config: ReaderConfig, generator: np.random.Generator | None = None
) -> list[Longs]:
    """Rows of each batch; every row that is learnt from is in exactly one, and none is empty.

    Batches are filled in turn, in storage order or in an order drawn from `generator`: by examples, or with
    `batch_events` until the next example would exceed the budget. Then all but the last hold the budget less at
    most one example's events, and only an example that exceeds it alone makes a larger batch.

    Args:
        part: the examples.
        batch_size: examples a batch, where they are counted.
        config: what is counted, and which examples stay together.
        generator: shuffles examples, or whole users or requests where histories are shared.
    """
    rows = part.learnt_rows
    order_N = rows[_order(part.user_N[rows], part.as_of_N[rows], config, generator)]
    if not config.batch_events:
        return [order_N[first : first + batch_size] for first in range(0, len(order_N), batch_size)]
    total_N = np.cumsum(1 + part.window.lengths[order_N])
    batches: list[Longs] = []
    first = 0
    while first < len(order_N):
        stop = run_end(total_N, first, config.batch_events)
        batches.append(order_N[first:stop])
        first = stop
    return batches


def expected_batches(sizes: Iterable[int], costs: Iterable[int], *, batch_size: int, config: ReaderConfig) -> int:
    """Number of batches of some parts: exact where examples are counted, else a close lower bound.

    Args:
        sizes: examples of each part.
        costs: examples and their events of each part.
        batch_size: examples a batch, where they are counted.
        config: what is counted.
    """
    per_batch, amounts = (config.batch_events, costs) if config.batch_events else (batch_size, sizes)
    return sum(-(-amount // per_batch) for amount in amounts)


def _order(user_N: Longs, as_of_N: Longs, config: ReaderConfig, generator: np.random.Generator | None) -> Longs:
    """All rows; shuffled by `generator`, by whole users or requests where they stay together."""
    if generator is None:
        return np.arange(len(user_N))
    if not config.share_histories:
        return generator.permutation(len(user_N))
    if config.keep_together == "user":
        users, slot_N = np.unique(user_N, return_inverse=True)
        return np.argsort(generator.permutation(len(users))[slot_N], kind="stable")
    first_R, slot_N = requests(user_N, as_of_N)
    return np.argsort(generator.permutation(len(first_R))[slot_N], kind="stable")
