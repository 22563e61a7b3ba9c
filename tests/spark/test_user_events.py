from __future__ import annotations

import pytest
from pyspark.sql import functions as F

from gem_pipeline.contracts import tables
from gem_pipeline.errors import SchemaError
from spark.profile import partition_profile
from spark.user_events import quarantined_engagements, user_events
from tests.oracles.event_log import DATES, KINDS, SECOND, _start, event_fault, events_of

pytestmark = pytest.mark.spark


def event(**changes):
    at = _start(DATES[0])
    row = {"eid": "e", "uid": 1, "aid": 2, "place": "s1", "stream": "feed", "acts": ["view"], "secs": None, "at": at,
           "got": at, "day": DATES[0]}  # fmt: skip
    return row | changes


def plain(row):
    kinds = frozenset(kind for position, kind in enumerate(KINDS) if row["actions"] >> position & 1)
    return (row["date"], row["event_key"], row["user_id"], row["ad_id"], row["at_us"], row["got_us"], row["surface"],
            row["source"], kinds, row["value"], row["owner"])  # fmt: skip


def test_two_thousand_random_logs_give_the_events_of_the_oracle(logs, spark):
    wanted = events_of(logs.rows)
    keys = spark.createDataFrame([(e["id"],) for e in wanted], "id string").distinct()
    key_of = {row["id"]: row["key"] for row in keys.select("id", F.xxhash64("id").alias("key")).collect()}
    us = [("at_us", "event_ts"), ("got_us", "ingest_ts")]
    found = logs.events().withColumns({name: F.unix_micros(column) for name, column in us}).collect()
    expected = {
        (e["date"], key_of[e["id"]], e["user"], e["ad"], int(e["at"].timestamp()) * 10**6,
         int(e["got"].timestamp()) * 10**6, e["surface"], e["source"], e["kinds"], e["value"], e["owner"])
        for e in wanted
    }  # fmt: skip
    assert len(found) == len(expected) > 10_000
    assert {plain(row) for row in found} == expected


def test_what_is_left_out_is_quarantined_with_its_reason(logs):
    counts = {
        row["reason"]: row["count"]
        for row in quarantined_engagements(logs.engagements, logs.contract).groupBy("reason").count().collect()
    }
    assert sum(counts.values()) == sum(event_fault(row) for row in logs.rows["engagements"])
    assert set(counts) == {
        "null event_id", "null user_id", "null ad_id", "null event_ts", "null ingest_ts", "null kinds",
        "unknown surface", "unknown source", "unknown kind",
    }  # fmt: skip


def test_the_order_of_the_input_and_conflicting_copies_change_nothing(frames):
    copies = [event(eid=f"e{i % 40}", acts=[KINDS[i % 3]], aid=i) for i in range(400)]
    hashes = set()
    for rows in (copies, copies[::-1]):
        made = frames({"engagements": rows})
        shuffled = made.engagements.repartition(5)
        events = user_events(shuffled, made.ads, made.contract)
        hashes.add(partition_profile(events, made.contract, "user_events").first()["content_hash"])
    assert len(hashes) == 1


def test_the_columns_are_those_of_the_schema(frames):
    made = frames({"engagements": [event()]})
    schema = tables.user_events(made.contract)
    found = made.events()
    assert tuple(found.columns) == schema.column_names
    assert [kind.upper() for _, kind in found.dtypes] == [schema.spark_type(name) for name in schema.column_names]


def test_one_string_is_one_kind(frames):
    made = frames({"engagements": [event()]})
    events = user_events(made.engagements.withColumn("acts", F.lit("like")), made.ads, made.contract)
    assert events.first()["actions"] == 1 << KINDS.index("like")


def test_string_ids_are_hashed_alike_in_every_table(frames):
    made = frames(
        {"engagements": [event()], "ads": [{"aid": 2, "owner_id": 9, "tags": None, "since": _start(DATES[0])}]}
    )
    text = {name: getattr(made, name).withColumn("aid", F.col("aid").cast("string")) for name in ("engagements", "ads")}
    row = user_events(text["engagements"], text["ads"], made.contract).first()
    assert row["owner"] == 9
    assert row["ad_id"] not in (2, None)


def test_an_event_in_the_same_instant_as_its_ads_new_version_takes_the_new_version(frames):
    at = _start(DATES[0])
    ads = [{"aid": 2, "owner_id": i, "tags": None, "since": at + i * SECOND} for i in (-1, 0, 1)]
    assert frames({"engagements": [event()], "ads": ads}).events().first()["owner"] == 0


@pytest.mark.parametrize("column", ["eid", "uid", "place", "stream", "acts", "at", "got", "day"])
def test_a_missing_column_is_named(frames, column):
    made = frames({"engagements": [event()]})
    with pytest.raises(SchemaError, match=f"engagements lacks column {column}"):
        user_events(made.engagements.drop(column), made.ads, made.contract)
