"""What is known of an impression comes from before it; the summaries agree with counting by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gem_pipeline.datasets.worlds import known as subject
from gem_pipeline.datasets.worlds.catalog import WORLDS
from gem_pipeline.datasets.worlds.content import post_topic
from gem_pipeline.datasets.worlds.population import users
from gem_pipeline.datasets.worlds.traffic import DAY_MS, organic, slots
from gem_pipeline.datasets.worlds.world import Scale

SCALE = Scale(users=60, history_days=3, days=6)


@pytest.fixture(scope="module")
def told():
    return subject.known(WORLDS["everyday"], SCALE, range(4))


def column(told, name):
    return told.column_NF[:, told.names.index(name)]


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 10 * DAY_MS), st.integers(-5, 5)), max_size=30),
    st.integers(0, 3), st.integers(0, 10 * DAY_MS), st.integers(0, 4),
)  # fmt: skip
def test_a_sum_of_the_past_agrees_with_counting(events, group, time, days):
    group_E, time_E, value_E = (
        (np.array(part) for part in zip(*events, strict=True)) if events else [np.zeros(0, int)] * 3
    )
    past = subject.Past.of(group_E, time_E, value_E.astype(float))
    wanted = sum(v for g, t, v in events if g == group and t <= time and (not days or t >= time - days * DAY_MS))
    assert past.until(np.array([group]), np.array([time]), days=days)[0] == pytest.approx(wanted)


def test_counts_of_an_impression_are_those_of_what_was_known_before_it(told):
    world = WORLDS["everyday"]
    who = users(world, SCALE, 0, SCALE.users)
    events = [organic(world, SCALE, slots(world, SCALE, who, day)) for day in range(-3, 4)]
    start = 0
    for part in told.served:
        at = part.slots.at
        for row in range(0, len(at.row_N), 17):
            mine = [
                (max(int(k) + 1, int(a)), int(t))
                for made in events
                for k, a, t in zip(
                    made.known_ms_N[made.at.row_N == at.row_N[row]], made.arrived_ms_N[made.at.row_N == at.row_N[row]],
                    post_topic(world, made.post_N[made.at.row_N == at.row_N[row]]), strict=True,
                )
            ]  # fmt: skip
            before = sorted(event for event in mine if event[0] <= part.slots.time_ms_N[row])
            topic = part.ad.topic_N[row]
            recent = [t for k, t in before if k >= part.slots.time_ms_N[row] - 2 * DAY_MS]
            assert column(told, "seen_0")[start + row] == sum(t == topic for _, t in before)
            assert column(told, "seen_2")[start + row] == recent.count(topic)
            assert column(told, "last_20")[start + row] == sum(t == topic for _, t in before[-20:])
        start += len(at.row_N)


def test_columns_do_not_change_with_the_future(told):
    fewer = subject.known(WORLDS["everyday"], SCALE, range(3))
    num = len(fewer.column_NF)
    for name in set(told.names) - {"shown_quality"}:
        np.testing.assert_allclose(column(told, name)[:num], column(fewer, name), err_msg=name)


def test_the_stated_part_and_the_rest_make_the_truth(told):
    assert told.column_NF.shape == (len(told.joined("p_click")), len(told.names))
    assert np.isfinite(told.column_NF).all()
    assert ((told.exposure_N > 0) & (told.exposure_N < 1)).all()
    assert np.corrcoef(told.exposure_N, told.joined("p_click_logged"))[0, 1] > 0.5


def test_vectors_show_most_of_quality_where_they_should():
    cold = subject.known(WORLDS["cold_start"], Scale(users=400), range(2))
    quality = np.concatenate([part.ad.quality_N for part in cold.served])
    assert np.corrcoef(column(cold, "shown_quality"), quality)[0, 1] > 0.9
