"""A world by Spark is the world of the closed forms, however many tasks make it."""

from __future__ import annotations

import pytest

from gem_pipeline.datasets.worlds.log import WorldLog
from gem_pipeline.datasets.worlds.population import day_index
from gem_pipeline.datasets.worlds.tables import organic_events
from spark import worlds
from spark.profile import content_hash
from tests.world_factory import world_contract

LOG = WorldLog.of(world_contract(events=20_000, days=4, history_days=1))
DATES = LOG.days()


def hash_of(rows):
    return rows.agg(content_hash(rows.columns)).collect()[0][0]


@pytest.fixture(scope="module")
def truth(spark):
    rows = worlds.served(spark, LOG, DATES, tasks=2).persist()
    yield rows
    rows.unpersist()


@pytest.mark.parametrize("make", [worlds.organic, worlds.served])
def test_the_content_is_the_same_at_one_two_and_eight_tasks(spark, make):
    assert len({hash_of(make(spark, LOG, DATES, tasks=tasks)) for tasks in (1, 2, 8)}) == 1


def test_a_day_alone_is_the_same_as_among_others(spark):
    alone = worlds.organic(spark, LOG, DATES[2:3], tasks=2)
    among = worlds.organic(spark, LOG, DATES, tasks=2).filter(f"date = '{DATES[2]}'")
    assert hash_of(alone) == hash_of(among)


def test_spark_makes_the_rows_of_the_closed_forms(spark):
    by_spark = worlds.organic(spark, LOG, DATES[1:2], tasks=2).orderBy("event_id").toArrow().drop_columns(["date"])
    made = organic_events(LOG.world, LOG.scale, 0, LOG.scale.users, day_index(LOG.scale, DATES[1]), DATES[1])
    assert by_spark.to_pylist() == made.sort_by("event_id").drop_columns(["date"]).to_pylist()


def test_the_history_has_no_impressions_and_every_impression_is_an_event(truth):
    assert sorted(row["date"] for row in truth.select("date").distinct().collect()) == list(DATES[1:])
    events = worlds.ad_events(truth)
    assert events.count() == truth.count()
    assert events.filter("size(actions) = 2").count() == truth.filter("is_click = 1").count()
    early = events.join(truth.selectExpr("impression_id AS event_id", "event_ts AS shown_ts"), "event_id")
    assert early.filter("event_ts <= shown_ts OR ingest_ts < event_ts").count() == 0


def test_conversions_land_on_the_day_they_arrive_and_never_say_which_impression(truth):
    rows = worlds.conversions(truth, DATES)
    assert "impression_id" not in rows.columns
    assert rows.filter("date != date_format(ingest_ts, 'yyyy-MM-dd') OR ingest_ts <= event_ts").count() == 0
    arrived = truth.filter("conversion_ingest_ts IS NOT NULL").filter(
        f"date_format(conversion_ingest_ts, 'yyyy-MM-dd') <= '{DATES[-1]}'"
    )
    assert rows.count() == arrived.count() > 0
    assert worlds.conversion_events(truth, DATES).count() == rows.count()


def test_what_the_platform_logs_holds_no_truth(truth):
    logged = set(worlds.impressions(truth).columns)
    assert not logged & {"p_click", "p_click_logged", "p_convert", "interest", "topic", "asks_for", "converted_ts"}
