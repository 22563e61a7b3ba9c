"""Rows are judged alike in every zone and on every day, and a user's choice holds as of the time."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import functions as F

from gem_pipeline.errors import SchemaError
from spark.examples import context_of
from spark.judging import anonymous_user, day_offset_us, with_user_state
from tests.oracles.event_log import DATES, SECOND, _start, log_contract

pytestmark = pytest.mark.spark
ZONES = ("UTC", "America/New_York", "Europe/Berlin", "Asia/Kolkata", "Australia/Lord_Howe", "Pacific/Kiritimati")
# Leap days, the days on which clocks of these zones change, and the turn of the year.
DAYS = ("2024-02-28", "2024-02-29", "2024-03-01", "2024-03-10", "2024-03-31", "2024-04-07", "2024-10-06", "2024-10-27",
        "2024-11-03", "2024-12-31", "2025-01-01")  # fmt: skip


@pytest.fixture
def in_zone(spark):
    """Set the session's zone; afterwards it is UTC again."""
    yield lambda zone: spark.conf.set("spark.sql.session.timeZone", zone)
    spark.conf.set("spark.sql.session.timeZone", "UTC")


@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(zone=st.sampled_from(ZONES), moments=st.lists(st.tuples(st.sampled_from(DAYS), st.integers(-90_000, 180_000)),
                                                     min_size=1, max_size=30))  # fmt: skip
def test_days_hours_and_weekdays_are_those_of_utc_in_every_session_zone(spark, in_zone, zone, moments):
    in_zone("UTC")
    seconds = [(i, day, int(_start(day).timestamp()) + offset) for i, (day, offset) in enumerate(moments)]
    made = spark.createDataFrame(seconds, "i int, date string, s bigint").select(
        "i", "date", F.timestamp_seconds("s").alias("impression_ts")
    )
    in_zone(zone)
    columns = [day_offset_us("impression_ts"), context_of("hour_of_day"), context_of("day_of_week")]
    found = made.select("i", *(column.cast("bigint").alias(str(n)) for n, column in enumerate(columns))).collect()
    for row in found:
        day, offset = moments[row["i"]]
        at = datetime.combine(date.fromisoformat(day), datetime.min.time(), tzinfo=UTC) + timedelta(seconds=offset)
        assert tuple(row)[1:] == (offset * 1_000_000, at.hour, at.isoweekday() % 7 + 1)


def states(frames, times, users):
    rows = {"users": [{"uid": 1, "age": None, "since": since, "hidden": hidden} for since, hidden in users]}
    made = frames(rows)
    facts = [(i, 1, at, got) for i, (at, got) in enumerate(times)]
    frame = made.users.sparkSession.createDataFrame(facts, "i int, user_id bigint, at timestamp, ingest_ts timestamp")
    judged = with_user_state(frame, made.users, made.contract, time="at")
    return [row["opted_out"] for row in judged.orderBy("i").collect()]


def test_a_user_is_opted_out_from_when_he_says_so_until_he_says_otherwise(frames):
    start = _start(DATES[0])
    users = [(start, True), (start + 10 * SECOND, False)]
    times = [(start + s * SECOND, start) for s in (-1, 0, 9, 10)]
    assert states(frames, times, users) == [False, True, True, False]


def test_a_fact_without_a_time_is_judged_by_its_arrival_or_by_the_newest_choice(frames):
    start = _start(DATES[0])
    users = [(start, False), (start + 10 * SECOND, True)]
    assert states(frames, [(None, start), (None, start + 20 * SECOND), (None, None)], users) == [False, True, True]


def test_an_opt_out_that_is_no_boolean_is_refused(frames):
    made = frames({})
    with pytest.raises(SchemaError, match="Column hidden of table users has type string, and a boolean is needed"):
        with_user_state(made.impressions, made.users.withColumn("hidden", F.lit("yes")), log_contract(), time="at")


def test_nobody_is_joined_where_the_contract_asks_nothing_of_users(frames):
    document = log_contract().model_dump(mode="json")
    document["tables"]["users"]["opt_out"] = None
    made = frames({"users": []}, type(log_contract()).model_validate(document))
    judged = with_user_state(made.impressions, made.users.drop("uid"), made.contract, time="at")
    assert {"opted_out", "known_user"} <= set(judged.columns)


def test_anonymous_users_differ_by_impression_and_are_the_same_at_every_run(spark):
    ids = spark.createDataFrame([("a",), ("b",), ("a",)], "id string").select(anonymous_user("id").alias("user"))
    users = [row["user"] for row in ids.collect()]
    assert users[0] == users[2] != users[1]
