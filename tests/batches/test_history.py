"""Events stand in time order and carry the moment at which they, and all before them, are visible."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings

from gem_pipeline.batches.history import History, ranges
from gem_pipeline.batches.windows import EventGroup
from tests.event_logs import KINDS, SECOND, event_logs, events_table, groups
from tests.oracles.history import Event


@settings(max_examples=200)
@given(events=event_logs())
def test_events_stand_by_user_time_arrival_and_key(events):
    history = History(events_table(events[::-1]), allowance_s=0)
    found = history.rows(np.arange(len(events)))["event_key"].to_pylist()
    assert found == [e.key for e in sorted(events, key=lambda e: (e.user, e.happened, e.arrived, e.key))]


@settings(max_examples=200)
@given(events=event_logs(), group=groups)
def test_an_event_is_settled_when_it_and_every_older_one_of_its_group_are_visible(events, group):
    history = History(events_table(events), allowance_s=2)
    track = history.track(group, KINDS)
    users = history.user_E[track.position_E]
    for i, user in enumerate(users.tolist()):
        older = track.visible_E[: i + 1][users[: i + 1] == user]
        assert track.settled_E[i] == older.max()


def test_an_event_becomes_visible_after_it_happened_and_once_it_arrived():
    events = [Event(1, 5 * SECOND, 5 * SECOND, 0), Event(1, 6 * SECOND, 20 * SECOND, 1)]
    assert History(events_table(events), allowance_s=0).visible_E.tolist() == [5 * SECOND + 1, 20 * SECOND]
    assert History(events_table(events), allowance_s=9).visible_E.tolist() == [5 * SECOND + 1, 11 * SECOND]


def test_unknown_users_and_an_empty_history_have_empty_bounds():
    for events in ([], [Event(2, SECOND, SECOND, 0)]):
        history = History(events_table(events), allowance_s=0)
        group = EventGroup(max_events=3)
        bounds = history.bounds(history.track(group, KINDS), group, np.array([0, 1, 3]), np.full(3, 9 * SECOND))
        assert (bounds.stop_N - bounds.low_N).tolist() == [0, 0, 0]


def test_ranges_are_put_one_after_the_other():
    assert ranges(np.array([3, 7, 7]), np.array([5, 7, 9])).tolist() == [3, 4, 7, 8]
    assert ranges(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)).tolist() == []
