"""A window specification says what it holds, survives storage, and refuses what cannot be."""

from __future__ import annotations

import json

import pytest
from hypothesis import given

from gem_pipeline.batches.windows import EventGroup, WindowSpec
from gem_pipeline.errors import ConfigError
from tests.event_logs import KINDS, event_logs, events_table, groups, window_specs
from tests.lake_factory import contract
from tests.oracles.history import belongs


@given(spec=window_specs)
def test_a_specification_survives_json(spec):
    assert WindowSpec.from_dict(json.loads(json.dumps(spec.to_dict()))) == spec


@given(events=event_logs(), group=groups)
def test_members_of_a_group_are_those_of_the_naive_rule_whatever_their_age(events, group):
    expected = [belongs(event, group, as_of=event.happened) for event in events]
    assert group.members(events_table(events), KINDS).tolist() == expected


def test_without_groups_all_events_are_one_group():
    (selection,) = WindowSpec(max_events=7, max_age_s=60).selections
    assert selection == EventGroup(max_events=7, max_age_s=60)


def test_a_group_takes_over_the_tighter_limits_of_the_window():
    spec = WindowSpec(
        max_events=10,
        max_age_s=60,
        groups=(EventGroup(max_events=99, max_age_s=600), EventGroup(max_events=3, max_age_s=5)),
    )
    assert [(g.max_events, g.max_age_s) for g in spec.selections] == [(10, 60), (3, 5)]


def test_the_look_back_is_the_widest_age_and_unbounded_where_one_group_is():
    aged, ageless = EventGroup(max_events=1, max_age_s=30), EventGroup(max_events=1)
    assert WindowSpec(max_events=4, groups=(aged, EventGroup(max_events=1, max_age_s=90))).look_back_s == 90
    assert WindowSpec(max_events=4, groups=(aged, ageless)).look_back_s is None
    assert WindowSpec(max_events=4, groups=(aged, ageless), max_age_s=60).look_back_s == 60
    assert WindowSpec(max_events=4).look_back_s is None


def test_a_group_needs_the_columns_it_is_declared_by_and_no_others():
    assert EventGroup(max_events=1).columns == ()
    assert EventGroup(max_events=1, kinds=("click",), surfaces=("tab",)).columns == ("actions", "surface")


@pytest.mark.parametrize("field", ["kinds", "sources", "surfaces"])
def test_a_name_that_the_contract_does_not_declare_is_refused(field):
    spec = WindowSpec(max_events=4, groups=(EventGroup(max_events=1, **{field: ("nowhere",)}),))
    with pytest.raises(ConfigError, match=f"{field}.*nowhere"):
        spec.check(contract())


@pytest.mark.parametrize("kind", [WindowSpec, EventGroup])
@pytest.mark.parametrize("change", [{"max_events": 0}, {"max_age_s": 0}])
def test_an_impossible_limit_is_refused(kind, change):
    with pytest.raises(ConfigError):
        kind(**({"max_events": 1} | change))
