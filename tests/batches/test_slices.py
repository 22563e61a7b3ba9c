"""Slices hold every user once within their limits; ranks share them out evenly and completely."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from gem_pipeline.batches.slices import BucketUsers, assign, cut_slices

_users = st.lists(st.tuples(st.integers(1, 9), st.integers(0, 40)), min_size=1, max_size=15)


def buckets_of(drawn):
    """Buckets of users numbered 10, 20, ..., with their examples and events."""
    return [
        BucketUsers(
            bucket=bucket,
            user_U=10 * np.arange(1, len(users) + 1),
            examples_U=np.array([examples for examples, _ in users]),
            events_U=np.array([events for _, events in users]),
        )
        for bucket, users in enumerate(drawn)
    ]


@settings(max_examples=200)
@given(drawn=st.lists(_users, max_size=4), limit=st.integers(1, 60), max_cost=st.one_of(st.none(), st.integers(1, 99)))
def test_every_user_is_in_one_slice_which_fits_or_holds_no_one_else(drawn, limit, max_cost):
    buckets = buckets_of(drawn)
    slices = cut_slices(buckets, max_events=10, max_resident_events=limit, max_cost=max_cost)
    row = 0
    seen = []
    for piece in slices:
        bucket = buckets[piece.bucket]
        own = (bucket.user_U >= piece.first_user) & (bucket.user_U <= piece.last_user)
        seen += [(piece.bucket, user) for user in bucket.user_U[own].tolist()]
        assert (piece.first_row, piece.num_examples) == (row, bucket.examples_U[own].sum())
        assert piece.num_events == bucket.events_U[own].sum()
        assert piece.num_events <= limit or own.sum() == 1
        assert max_cost is None or piece.cost <= max_cost or own.sum() == 1
        row += piece.num_examples
    assert seen == [(bucket.bucket, user) for bucket in buckets for user in bucket.user_U.tolist()]


def test_a_bucket_whose_events_are_known_to_fit_is_one_slice():
    bucket = BucketUsers(bucket=3, user_U=np.array([1, 5]), examples_U=np.array([2, 4]), events_U=None)
    (piece,) = cut_slices([bucket], max_events=10, max_resident_events=1)
    assert (piece.first_user, piece.last_user, piece.num_examples, piece.num_events) == (1, 5, 6, None)


@settings(max_examples=100)
@given(drawn=st.lists(_users, min_size=1, max_size=4), world_size=st.integers(1, 5))
def test_ranks_partition_the_slices_and_none_exceeds_the_mean_by_more_than_a_slice(drawn, world_size):
    slices = cut_slices(buckets_of(drawn), max_events=10, max_resident_events=50)
    shares = assign(slices, world_size)
    assert len(shares) == world_size
    assert sorted((s for share in shares for s in share), key=lambda s: s.first_row) == list(slices)
    assert all(list(share) == sorted(share, key=lambda s: s.first_row) for share in shares)
    loads = [sum(s.cost for s in share) for share in shares]
    assert max(loads) <= sum(loads) / world_size + max(s.cost for s in slices)
