from __future__ import annotations

import pytest
from pyspark.sql import functions as F

from gem_pipeline.errors import SchemaError
from spark.expressions import attributes_as_of, hashed_id, user_bucket, utc_time, visible_ts
from tests.oracles.event_log import DATES, SECOND, _start, events_of, log_contract, sees

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("allowance_s", [0, 5])
def test_visible_time_says_what_the_two_clocks_say_for_every_pair_of_the_random_logs(logs, spark, allowance_s):
    contract = log_contract(allowance_s=allowance_s)
    events = [e for e in events_of(logs.rows) if e["user"] < 8000]
    instants = sorted({row["at"] for row in logs.rows["impressions"] if row["at"] is not None})
    frame = spark.createDataFrame(
        [(i, e["at"], e["got"]) for i, e in enumerate(events)], "i int, event_ts timestamp, ingest_ts timestamp"
    )
    visible = {
        row["i"]: row["us"] for row in frame.select("i", F.unix_micros(visible_ts(contract)).alias("us")).collect()
    }
    wrong = [
        (event, at)
        for i, event in enumerate(events)
        for at in instants
        if (visible[i] <= int(at.timestamp()) * 10**6) != sees(at, event, allowance_s)
    ]
    assert wrong == []


def test_an_id_is_an_integer_or_a_hashed_string_and_nothing_else(spark):
    frame = spark.createDataFrame([(5, "x", 0.5), (None, None, None)], "number int, text string, real double")
    rows = frame.select(hashed_id(frame, "number", "t").alias("n"), hashed_id(frame, "text", "t").alias("s")).collect()
    assert (rows[0]["n"], rows[1]["n"], rows[1]["s"]) == (5, None, None)
    assert rows[0]["s"] is not None
    with pytest.raises(SchemaError, match="Column real of table t has type double"):
        hashed_id(frame, "real", "t")


def test_a_time_must_be_a_timestamp(spark):
    frame = spark.createDataFrame([("2024-03-01",)], "at string")
    with pytest.raises(SchemaError, match="a time is a timestamp"):
        utc_time(frame, "at", "impressions")


def test_negative_users_have_buckets_too(spark):
    frame = spark.createDataFrame([(user,) for user in range(-50, 50)], "user_id bigint")
    found = {row[0] for row in frame.select(user_bucket(F.col("user_id"), log_contract())).distinct().collect()}
    assert found == {0, 1, 2}


def test_repeated_rows_of_a_dimension_do_not_repeat_the_fact(spark):
    facts = spark.createDataFrame([(1, _start(DATES[0]))], "k int, at timestamp")
    plain = spark.createDataFrame([(1, "a"), (1, "a"), (1, "b")], "k int, v string")
    assert attributes_as_of(facts, plain, key="k", time="at", has_validity=False).count() == 1
    dated = plain.withColumn("valid_from", F.lit(_start(DATES[0]) - SECOND))
    assert attributes_as_of(facts, dated, key="k", time="at", has_validity=True).count() == 1
