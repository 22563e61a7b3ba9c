"""Compute for equal NE is read off measured envelopes, or is a state."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gem_pipeline.metrics.compute_ratio import compute_ratio
from gem_pipeline.metrics.state import MetricState

COMPUTES = np.geomspace(1e9, 1e13, 5)


def line(compute, head_start=1.0):
    return 0.9 - 0.01 * np.log(np.asarray(compute) * head_start / 1e9)


@settings(max_examples=20)
@given(st.floats(1.0, 1e4))
def test_an_architecture_that_needs_a_share_of_the_compute_has_the_inverse_as_ratio(times):
    found = compute_ratio(COMPUTES, line(COMPUTES, times), COMPUTES, line(COMPUTES))
    assert found.ratio == pytest.approx(times)
    assert found.peer_compute == 1e13


def test_a_peer_that_is_better_everywhere_is_not_reached():
    assert compute_ratio(COMPUTES, line(COMPUTES), COMPUTES, line(COMPUTES, 2.0)) is MetricState.NOT_REACHED


def test_nothing_counts_beyond_the_common_range():
    assert compute_ratio(COMPUTES, line(COMPUTES), COMPUTES[:3], line(COMPUTES[:3], 20)) is MetricState.NOT_REACHED
    found = compute_ratio(COMPUTES[:3], line(COMPUTES[:3], 2.0), COMPUTES, line(COMPUTES))
    assert (found.peer_compute, found.ratio) == pytest.approx((1e11, 2.0))


def test_worse_points_and_their_order_change_nothing():
    found = compute_ratio(
        [*COMPUTES[::-1], 1e12], [*line(COMPUTES, 4.0)[::-1], 0.95], [1e10, *COMPUTES], [0.99, *line(COMPUTES)]
    )
    assert found.ratio == pytest.approx(4.0)


def test_a_ratio_is_a_lower_bound_where_the_cheapest_training_is_good_enough():
    found = compute_ratio(COMPUTES, line(COMPUTES, 1e5), COMPUTES, line(COMPUTES))
    assert found.at_least
    assert found.ratio == pytest.approx(1e4)


@pytest.mark.parametrize("peer", [[], [1e7, 1e8]])
def test_no_common_range_is_a_state(peer):
    assert compute_ratio(COMPUTES, line(COMPUTES), peer, line(peer)) is MetricState.TOO_FEW
