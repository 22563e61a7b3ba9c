"""Windows against a naive oracle over random logs: ties, late events, unknown users, empty histories."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gem_pipeline.batches.history import History, Window
from gem_pipeline.errors import LeakageError
from tests.oracles.history import Event, visible_window

SECOND = 1_000_000
_event = st.tuples(st.integers(0, 3), st.integers(0, 30), st.integers(0, 12))
_question = st.tuples(st.integers(0, 4), st.integers(0, 40))


def events_table(events: list[Event]) -> pa.Table:
    utc = pa.timestamp("us", tz="UTC")
    return pa.table(
        {
            "user_id": pa.array([e.user for e in events], pa.int64()),
            "event_ts": pa.array([e.happened for e in events], pa.int64()).cast(utc),
            "ingest_ts": pa.array([e.arrived for e in events], pa.int64()).cast(utc),
            "event_key": pa.array([e.key for e in events], pa.int64()),
        }
    )


def log(drawn: list[tuple[int, int, int]]) -> list[Event]:
    return [Event(user, at * SECOND, (at + late) * SECOND, key) for key, (user, at, late) in enumerate(drawn)]


def windows(history: History, questions: list[tuple[int, int]], *, max_events: int) -> list[list[int]]:
    users = np.array([user for user, _ in questions], dtype=np.int64)
    as_of = np.array([at * SECOND for _, at in questions], dtype=np.int64)
    window = history.window(users, as_of, max_events=max_events)
    keys = history.events["event_key"].to_numpy()[window.index_T].tolist()
    cuts = np.cumsum(window.length_N)[:-1]
    return [part.tolist() for part in np.split(np.array(keys, dtype=np.int64), cuts)]


@settings(max_examples=300, deadline=None)
@given(
    drawn=st.lists(_event, max_size=40), questions=st.lists(_question, min_size=1, max_size=12),
    allowance_s=st.integers(0, 5), max_events=st.integers(0, 6), on_time=st.booleans(), data=st.data(),
)  # fmt: skip
def test_every_window_equals_the_oracle_whatever_the_order_of_the_rows(
    drawn, questions, allowance_s, max_events, on_time, data
):
    events = log([(user, at, 0 if on_time else late) for user, at, late in drawn])
    shuffled = data.draw(st.permutations(events))
    history = History(events_table(shuffled), allowance_s=allowance_s)
    expected = [
        visible_window(events, user=user, as_of=at * SECOND, allowance=allowance_s * SECOND, max_events=max_events)
        for user, at in questions
    ]
    assert windows(history, questions, max_events=max_events) == expected


@settings(max_examples=100, deadline=None)
@given(
    drawn=st.lists(_event, max_size=30), later=st.lists(_event, max_size=10),
    questions=st.lists(_question, min_size=1, max_size=8),
)  # fmt: skip
def test_events_at_or_after_an_impression_never_change_its_window(drawn, later, questions):
    events = log(drawn)
    newest = max(at for _, at in questions)
    added = [Event(user, (newest + at) * SECOND, (newest + at + late) * SECOND, 1000 + i)
             for i, (user, at, late) in enumerate(later)]  # fmt: skip
    before = windows(History(events_table(events), allowance_s=0), questions, max_events=5)
    after = windows(History(events_table(events + added), allowance_s=0), questions, max_events=5)
    assert before == after


def test_an_event_of_the_same_microsecond_is_not_visible():
    history = History(events_table([Event(1, 5 * SECOND, 5 * SECOND, 7)]), allowance_s=0)
    assert windows(history, [(1, 5)], max_events=3) == [[]]
    one_later = history.window(np.array([1]), np.array([5 * SECOND + 1]), max_events=3)
    assert one_later.length_N.tolist() == [1]


def test_a_window_that_holds_a_future_event_is_refused():
    history = History(events_table([Event(1, 5 * SECOND, 5 * SECOND, 7)]), allowance_s=0)
    forged = Window(index_T=np.array([0]), length_N=np.array([1]))
    with pytest.raises(LeakageError, match="1 event"):
        history._assert_visible(forged, np.array([1]), np.array([5 * SECOND]))


def test_a_user_of_a_hundred_thousand_events_costs_one_binary_search():
    events = [Event(1, i * SECOND, i * SECOND, i) for i in range(100_000)]
    history = History(events_table(events), allowance_s=0)
    window = history.window(np.array([1, 2]), np.array([90_000 * SECOND] * 2), max_events=64)
    assert window.length_N.tolist() == [64, 0]
    assert window.index_T.tolist() == list(range(89_936, 90_000))
