"""Sensors: new days are refreshed, changed days get their features only, and a finished run is followed up."""

from __future__ import annotations

import json

import dagster as dg
import pytest

from assets.partitions import RANGE_END, RANGE_START
from jobs.arrivals import new_bronze_partition
from jobs.follow_up import evaluation_follows, verticals_follow
from jobs.ranges import contiguous, dates_of, range_tags
from jobs.refresh import refresh, refresh_verticals

pytestmark = [pytest.mark.graph, pytest.mark.filterwarnings("error")]


@pytest.fixture
def bronze(monkeypatch):
    """Bronze partitions that a test may change."""
    found: dict[str, str] = {}
    monkeypatch.setattr("jobs.arrivals.bronze_fingerprints", lambda _: dict(sorted(found.items())))
    monkeypatch.setattr(
        "jobs.arrivals.days_without_impressions", lambda _, dates: {day for day in dates if "events only" in found[day]}
    )
    return found


def tick(settings, cursor=None):
    context = dg.build_sensor_context(cursor=cursor, resources={"settings": settings})
    return new_bronze_partition(context)


def asked(result) -> list[tuple[str, str, str]]:
    return [(r.job_name, r.tags[RANGE_START], r.tags[RANGE_END]) for r in result.run_requests]


def test_new_days_are_one_refresh_a_stretch_so_that_the_chain_runs_in_order(bronze, settings):
    bronze.update({"2022-04-26": "a", "2022-04-25": "b", "2022-04-28": "c"})
    assert asked(tick(settings)) == [
        ("refresh", "2022-04-25", "2022-04-26"),
        ("refresh", "2022-04-28", "2022-04-28"),
    ]


def test_a_day_that_landed_again_gets_its_features_only_under_a_new_key(bronze, settings):
    bronze["2022-04-25"] = "a"
    first = tick(settings)
    assert isinstance(tick(settings, first.cursor), dg.SkipReason)
    bronze["2022-04-25"] = "b"
    second = tick(settings, first.cursor)
    assert asked(second) == [("refresh_features", "2022-04-25", "2022-04-25")]
    assert second.run_requests[0].run_key == "refresh_features:2022-04-25:2022-04-25:b"
    assert json.loads(second.cursor) == {"2022-04-25": "b"}


def test_a_day_without_impressions_gets_its_events_only_and_before_the_days_that_count_them(bronze, settings):
    bronze.update({"2022-04-24": "events only", "2022-04-25": "a"})
    assert asked(tick(settings)) == [
        ("refresh_history", "2022-04-24", "2022-04-24"),
        ("refresh", "2022-04-25", "2022-04-25"),
    ]


def test_a_day_whose_impressions_land_after_its_events_is_refreshed_then(bronze, settings):
    bronze["2022-04-25"] = "events only"
    first = tick(settings)
    assert isinstance(tick(settings, first.cursor), dg.SkipReason)
    bronze["2022-04-25"] = "events only, more of them"
    second = tick(settings, first.cursor)
    assert asked(second) == [("refresh_history", "2022-04-25", "2022-04-25")]
    bronze["2022-04-25"] = "complete"
    assert asked(tick(settings, second.cursor)) == [("refresh", "2022-04-25", "2022-04-25")]


def test_the_same_content_has_the_same_key_when_the_cursor_is_lost(bronze, settings):
    bronze.update({"2022-04-25": "a", "2022-04-26": "b"})
    assert tick(settings).run_requests[0].run_key == tick(settings).run_requests[0].run_key


def test_stretches_are_split_at_gaps():
    assert contiguous(["2022-04-30", "2022-05-01", "2022-04-28", "2022-05-01"]) == [
        ("2022-04-28", "2022-04-28"),
        ("2022-04-30", "2022-05-01"),
    ]


def test_dates_of_a_run_are_read_from_a_range_a_day_or_a_vertical():
    assert dates_of(range_tags("2022-04-25", "2022-04-27", ["b", "a"])) == ("2022-04-25", "2022-04-27")
    assert dates_of({"dagster/partition": "2022-04-25"}) == ("2022-04-25", "2022-04-25")
    assert dates_of({"dagster/partition/date": "2022-04-25", "dagster/partition/vertical": "a"}) == (
        "2022-04-25",
        "2022-04-25",
    )
    assert dates_of({}) is None


def follow(sensor, job: str, tags: dict[str, str], instance: dg.DagsterInstance):
    run = dg.DagsterRun(job_name=job, run_id="11111111-1111-1111-1111-111111111111", tags=tags)
    event = dg.DagsterEvent(event_type_value="PIPELINE_SUCCESS", job_name=job)
    context = dg.build_run_status_sensor_context(sensor.name, event, instance, run)
    return sensor(context)


def test_verticals_follow_the_foundation_model_in_one_run_for_all_its_days():
    with dg.DagsterInstance.ephemeral() as instance:
        tags = range_tags("2022-04-25", "2022-04-27")
        assert isinstance(follow(verticals_follow, refresh.name, tags, instance), dg.SkipReason)
        instance.add_dynamic_partitions("vertical", ["tab_1__click", "tab_0__like"])
        request = follow(verticals_follow, refresh.name, tags, instance)
        assert request.tags == {RANGE_START: "2022-04-25|tab_1__click", RANGE_END: "2022-04-27|tab_0__like"}


def test_the_evaluation_follows_the_verticals():
    with dg.DagsterInstance.ephemeral() as instance:
        tags = range_tags("2022-04-25", "2022-04-27", ["tab_1__click"])
        request = follow(evaluation_follows, refresh_verticals.name, tags, instance)
        assert request.tags == range_tags("2022-04-25", "2022-04-27")
