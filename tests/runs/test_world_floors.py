"""Floors: everything lies below what the log tells, and a regression on the log can be reached."""

from __future__ import annotations

import numpy as np
import pytest

from gem_pipeline.datasets.worlds.catalog import WORLDS
from gem_pipeline.datasets.worlds.world import Scale
from gem_pipeline.metrics.state import MetricState
from gem_pipeline.runs import world_floors as subject

SCALE = Scale(users=200, history_days=7, days=7)


@pytest.fixture(scope="module")
def found():
    return subject.floors(WORLDS["long_range"], SCALE, range(7), trees=25)


def test_there_is_a_floor_for_each_surface_and_what_it_sells(found):
    assert [(floor.surface, floor.objective) for floor in found] == [
        ("feed", "click"), ("photos", "click"), ("messaging", "click"), ("feed", "purchase"), ("photos", "purchase"),
        ("feed", "lead"), ("messaging", "lead"), ("messaging", "conversation"),
    ]  # fmt: skip


def test_what_is_known_orders_the_floors(found):
    for floor in found:
        if isinstance(floor.everything, MetricState):
            continue
        assert 0 < floor.everything < floor.logged_low
        assert floor.logged_low < floor.logged_high + 0.002


def test_the_bracket_is_narrow_for_clicks_and_the_log_tells_something(found):
    feed = found[0]
    assert feed.logged_high - feed.logged_low < 0.05
    assert feed.logged_high < 0.93


def test_small_cells_have_a_state_instead_of_a_number(found):
    small = [floor for floor in found if floor.rows < subject.MIN_ROWS]
    assert small
    for floor in small:
        assert {floor.everything, floor.logged_low, floor.logged_high} == {MetricState.TOO_FEW}


def test_floors_are_the_same_again():
    one, other = (subject.floors(WORLDS["drift"], Scale(users=60, days=3), range(3), trees=3) for _ in range(2))
    assert one == other


def test_floor_given_everything_is_the_entropy_of_the_truth_over_that_of_the_base_rate():
    prob = np.random.default_rng(0).uniform(0.01, 0.4, 400)
    entropy = -(prob * np.log(prob) + (1 - prob) * np.log(1 - prob)).mean()
    rate = prob.mean()
    base = -(rate * np.log(rate) + (1 - rate) * np.log(1 - rate))
    assert subject._ne(prob, prob, 400) == pytest.approx(entropy / base)


def test_a_surface_whose_ads_never_ask_has_no_rows():
    prob = np.full(500, 0.1)
    assert subject._ne(prob, prob, 0) is MetricState.NO_ROWS
    assert subject._ne(prob, prob, 299) is MetricState.TOO_FEW
