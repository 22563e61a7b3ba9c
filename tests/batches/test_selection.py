"""Windows of every specification against a naive oracle over random logs: ties, late events, empty users."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gem_pipeline.batches import selection
from gem_pipeline.batches.history import History
from gem_pipeline.batches.selection import find_windows
from gem_pipeline.batches.windows import EventGroup, WindowSpec
from gem_pipeline.errors import LeakageError
from tests.event_logs import KINDS, SECOND, event_logs, events_table, window_specs
from tests.oracles.history import Event, selected_window

_question = st.tuples(st.integers(0, 4), st.integers(0, 40))
questions_of = st.lists(_question, min_size=1, max_size=12)


def windows(events, questions, spec, *, allowance_s=0):
    history = History(events_table(events), allowance_s=allowance_s)
    users = np.array([user for user, _ in questions], dtype=np.int64)
    as_of = np.array([at * SECOND for _, at in questions], dtype=np.int64)
    window, kept_E = find_windows(history, spec, users, as_of, kinds=KINDS)
    key_E = history.rows(kept_E)["event_key"].to_numpy()
    index_T, length_N = window.select(np.arange(len(questions)))
    assert window.lengths.tolist() == length_N.tolist()
    return [part.tolist() for part in np.split(key_E[index_T], np.cumsum(length_N)[:-1])]


def expected(events, questions, spec, *, allowance_s=0):
    return [
        selected_window(events, spec, user=user, as_of=at * SECOND, allowance=allowance_s * SECOND)
        for user, at in questions
    ]


@settings(max_examples=1800)
@given(events=event_logs(), questions=questions_of, spec=window_specs, allowance_s=st.integers(0, 5), data=st.data())
def test_every_window_equals_the_oracle_whatever_the_order_of_the_rows(events, questions, spec, allowance_s, data):
    shuffled = data.draw(st.permutations(events))
    found = windows(shuffled, questions, spec, allowance_s=allowance_s)
    assert found == expected(events, questions, spec, allowance_s=allowance_s)


@settings(max_examples=100)
@given(events=event_logs(), later=event_logs(max_size=10), questions=questions_of, spec=window_specs)
def test_events_at_or_after_an_impression_never_change_its_window(events, later, questions, spec):
    newest = max(at for _, at in questions) * SECOND
    added = [e._replace(happened=newest + e.happened, arrived=newest + e.arrived, key=1000 + e.key) for e in later]
    assert windows(events + added, questions, spec) == windows(events, questions, spec)


@settings(max_examples=60)
@given(events=event_logs(), questions=questions_of, spec=window_specs, block=st.integers(1, 6))
def test_the_size_of_the_blocks_changes_nothing(events, questions, spec, block):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(selection, "BLOCK_EVENTS", block)
        found = windows(events, questions, spec)
    assert found == expected(events, questions, spec)


def test_a_window_that_holds_a_future_event_is_refused():
    history = History(events_table([Event(1, 5 * SECOND, 5 * SECOND, 7)]), allowance_s=0)
    window, _ = find_windows(history, WindowSpec(max_events=3), np.array([1]), np.array([6 * SECOND]))
    forged = replace(window, as_of_N=np.array([5 * SECOND]))
    with pytest.raises(LeakageError, match="1 event"):
        forged.select(np.array([0]))


def test_events_that_no_impression_can_see_are_dropped():
    events = [Event(1, i * SECOND, i * SECOND, i) for i in range(1000)]
    history = History(events_table(events), allowance_s=0)
    _, kept_E = find_windows(history, WindowSpec(max_events=8), np.array([1]), np.array([500 * SECOND]))
    assert kept_E.tolist() == list(range(492, 500))


def test_a_user_of_a_hundred_thousand_events_is_no_special_case():
    events = [Event(1, i * SECOND, i * SECOND, i) for i in range(100_000)]
    assert windows(events, [(1, 90_000), (2, 90_000)], WindowSpec(max_events=64)) == [[*range(89_936, 90_000)], []]


def test_many_users_with_late_events_are_looked_up_in_few_steps(monkeypatch):
    """Every user has an event that arrives after all others: nothing behind it counts as settled."""
    looked_at = []
    counted = selection.ranges

    def counting(begin_N, stop_N):
        looked_at.append(int((stop_N - begin_N).sum()))
        return counted(begin_N, stop_N)

    monkeypatch.setattr(selection, "ranges", counting)
    users, per_user, wanted = range(200), 100, 5
    events = [Event(user, i * SECOND, (i if i else 10_000) * SECOND, user * per_user + i)
              for user in users for i in range(per_user)]  # fmt: skip
    spec = WindowSpec(max_events=wanted)
    found = windows(events, [(user, per_user) for user in users], spec)
    assert found == [[user * per_user + i for i in range(per_user - wanted, per_user)] for user in users]
    assert sum(looked_at) <= 2 * len(users) * 6 * wanted  # windows are cut twice here: for lengths and for events
    assert len(looked_at) < 12


def test_groups_are_merged_in_time_order_without_doubles():
    kinds = [{"click"}, {"like"}, {"click", "like"}, set(), {"share"}, {"like"}]
    events = [Event(1, i * SECOND, i * SECOND, i, frozenset(k), "feed", "tab") for i, k in enumerate(kinds)]
    spec = WindowSpec(
        max_events=4, groups=(EventGroup(max_events=2, kinds=("click",)), EventGroup(max_events=2, kinds=("like",)))
    )
    assert windows(events, [(1, 10)], spec) == [[0, 2, 5]]
