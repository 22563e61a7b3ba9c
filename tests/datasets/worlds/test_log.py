"""The contract's choice of a world decides days, users and content; impossible choices are refused with the rule."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from gem_pipeline.datasets.worlds.log import WorldLog
from gem_pipeline.errors import ConfigError
from tests.world_factory import world_contract


def test_history_comes_first_and_has_no_impressions():
    log = WorldLog.of(world_contract(days=5, history_days=2))
    assert log.days() == tuple(f"2026-01-0{i}" for i in range(1, 6))
    assert [log.has_impressions(day) for day in log.days()] == [False, False, True, True, True]


def test_the_fingerprint_of_a_day_changes_with_world_size_seed_faults_and_day_only():
    base = WorldLog.of(world_contract())
    others = [
        WorldLog.of(world_contract("drift")), WorldLog.of(world_contract(events=30_000)),
        WorldLog.of(world_contract(seed=1)), WorldLog.of(world_contract(faults={"nulls": 0.1})),
    ]  # fmt: skip
    day = base.days()[2]
    assert WorldLog.of(world_contract()).fingerprint(day) == base.fingerprint(day)
    assert len({log.fingerprint(day) for log in [base, *others]} | {base.fingerprint(base.days()[3])}) == 6


def test_faults_are_no_part_of_the_truth():
    faulty = WorldLog.of(world_contract(faults={"nulls": 0.1}))
    assert faulty.truth_fingerprint == WorldLog.of(world_contract()).truth_fingerprint


@pytest.mark.parametrize(
    ("choice", "rule"),
    [
        ({"history_days": 5}, "leaves no day with impressions"),
        ({"faults": {"nulls": 2.0}}, "less than or equal to 0.5"),
        ({"faults": {"gremlins": 1}}, "Extra inputs"),
    ],
)
def test_an_impossible_choice_is_refused_with_its_rule(choice, rule):
    with pytest.raises(ValidationError, match=rule):
        world_contract(**choice)


def test_a_world_of_too_few_users_and_one_that_does_not_exist_are_refused():
    with pytest.raises(ConfigError, match="users"):
        WorldLog.of(world_contract(events=10_000, events_a_day=500, days=5, history_days=0))
    with pytest.raises(ConfigError, match="There is no world"):
        WorldLog.of(world_contract().model_copy(update={"world": world_contract().world.model_copy(
            update={"name": "nowhere"})}))  # fmt: skip


def test_surfaces_of_the_contract_must_be_those_of_the_world():
    contract = world_contract()
    with pytest.raises(ConfigError, match="messaging"):
        WorldLog.of(contract.model_copy(update={"surfaces": ("feed", "photos")}))
