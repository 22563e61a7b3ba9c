"""How a day is cut into user slices that fit into memory, and how ranks share them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Longs = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, slots=True)
class UserSlice:
    """The examples of a run of users of one bucket, read and held together.

    Attributes:
        bucket: user bucket.
        first_user: smallest user id, inclusive.
        last_user: largest user id, inclusive.
        first_row: number of the first example within its date (bucket, user, time, id order).
        num_examples: examples.
        num_events: events of their users that are read, at most; None: not counted, as they were known to fit.
        cost: examples and the events that they see, at most; what ranks are balanced by.
    """

    bucket: int
    first_user: int
    last_user: int
    first_row: int
    num_examples: int
    num_events: int | None
    cost: int


@dataclass(frozen=True, kw_only=True)
class BucketUsers:
    """Users with examples in one bucket, ascending.

    Attributes:
        user_U: user ids.
        examples_U: examples of each.
        events_U: events of each that are read; None: not counted.
    """

    bucket: int
    user_U: Longs
    examples_U: Longs
    events_U: Longs | None


def cut_slices(
    buckets: list[BucketUsers], *, max_events: int, max_resident_events: int, max_cost: int | None = None
) -> tuple[UserSlice, ...]:
    """Cut buckets into runs of users.

    A slice is closed before its events exceed `max_resident_events`, or its cost `max_cost`; a single user with
    more is a slice of its own. A bucket whose events were not counted is one slice.

    Args:
        buckets: users by bucket, in bucket order.
        max_events: events an example sees, at most.
        max_resident_events: events that may be read for a slice.
        max_cost: cost that a slice should not exceed; None: any.
    """
    slices: list[UserSlice] = []
    row = 0
    for bucket in buckets:
        events_U = bucket.events_U if bucket.events_U is not None else np.zeros_like(bucket.examples_U)
        cost_U = bucket.examples_U * (1 + np.minimum(events_U, max_events))
        total_events, total_cost = np.cumsum(events_U), np.cumsum(cost_U)
        first = 0
        while first < len(bucket.user_U):
            stop = run_end(total_events, first, max_resident_events)
            if max_cost is not None:
                stop = min(stop, run_end(total_cost, first, max_cost))
            num_examples = int(bucket.examples_U[first:stop].sum())
            slices.append(
                UserSlice(
                    bucket=bucket.bucket,
                    first_user=int(bucket.user_U[first]),
                    last_user=int(bucket.user_U[stop - 1]),
                    first_row=row,
                    num_examples=num_examples,
                    num_events=int(events_U[first:stop].sum()) if bucket.events_U is not None else None,
                    cost=int(cost_U[first:stop].sum()),
                )
            )
            row += num_examples
            first = stop
    return tuple(slices)


def assign(slices: tuple[UserSlice, ...], world_size: int) -> tuple[tuple[UserSlice, ...], ...]:
    """Give every slice to one rank: the costliest first, each to the rank with the least so far.

    The largest share exceeds the mean by less than one slice (Graham, 1969: longest processing time first).
    Every rank computes the same answer; within a rank slices keep their order.
    """
    load = [0] * world_size
    rank_of: dict[UserSlice, int] = {}
    for piece in sorted(slices, key=lambda s: (-s.cost, s.first_row)):
        rank = load.index(min(load))
        load[rank] += piece.cost
        rank_of[piece] = rank
    return tuple(tuple(piece for piece in slices if rank_of[piece] == rank) for rank in range(world_size))


def run_end(total_U: Longs, first: int, limit: int) -> int:
    """End of the longest run from `first` that sums to at most `limit`, given running totals; at least one element."""
    before = int(total_U[first - 1]) if first else 0
    return max(first + 1, int(np.searchsorted(total_U, before + limit, side="right")))
