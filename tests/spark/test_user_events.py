from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import replace

import pytest
from pyspark.sql import functions as F

from gem_pipeline.contracts import tables
from gem_pipeline.contracts.conversions import days_before
from gem_pipeline.errors import SchemaError
from spark.profile import partition_profile
from spark.user_events import judged_engagements, quarantined_engagements, user_events
from tests.oracles.event_log import DATES, KINDS, SECOND, _start, by_user, events_of, left_out, log_contract, opted_out

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


def quarantined(made, copies_on=DATES):
    judged = judged_engagements(made.engagements, made.users, made.ads, made.contract)
    return quarantined_engagements(judged, made.contract, dates=DATES, copies_on=copies_on)


def counted(frame):
    rows = frame.groupBy("date", "reason").count().collect()
    return {(row["date"], row["reason"]): row["count"] for row in rows}


def test_every_row_of_two_thousand_random_logs_is_kept_or_quarantined_with_its_reason(logs):
    counts = counted(quarantined(logs))
    assert counts == left_out(logs.rows, "engagements")
    kept = {row["date"]: row["count"] for row in logs.events().groupBy("date").count().collect()}
    for date in DATES:
        rows = sum(row["day"] == date for row in logs.rows["engagements"])
        assert kept[date] + sum(count for (day, _), count in counts.items() if day == date) == rows
    assert {reason for _, reason in counts} == {
        "null event_id", "null user_id", "null ad_id", "null event_ts", "null ingest_ts", "null kinds",
        "unknown surface", "unknown source", "unknown kind", "ingested before it happened",
        "happened more than a day after its day", "opted out", "duplicate id",
    }  # fmt: skip


def test_no_event_of_a_time_at_which_its_user_was_opted_out_is_visible(logs, spark):
    users = by_user(logs.rows)
    hidden = [(row["eid"], row["day"]) for row in logs.rows["engagements"] if row["eid"] and opted_out(users, row)]
    shown = {(row["eid"], row["day"]) for row in logs.rows["engagements"] if not opted_out(users, row)}
    only = spark.createDataFrame(sorted(set(hidden) - shown), "id string, date string")
    keys = only.select("date", F.xxhash64("id").alias("event_key"))
    assert keys.count() > 1000
    assert logs.events().join(keys, on=["date", "event_key"]).count() == 0
    rows = [row["row"] for row in quarantined(logs).filter("reason = 'opted out'").select("row").collect()]
    assert all(re.fullmatch(r'\{("key_hash":-?\d+)?\}', row) for row in rows)


def test_copies_are_looked_for_on_the_named_days_only_and_are_the_rows_that_were_not_kept(frames):
    copies = [event(eid="e", got=_start(DATES[0]) + i * SECOND, aid=i) for i in range(3)]
    made = frames({"engagements": copies})
    assert quarantined(made, copies_on=()).count() == 0
    rows = [json.loads(row["row"]) for row in quarantined(made, copies_on=DATES[:1]).collect()]
    assert sorted(row["ad_id"] for row in rows) == [1, 2]
    assert made.events().first()["ad_id"] == 0


def seeking(days):
    document = log_contract().model_dump(mode="json")
    document["tables"]["engagements"]["copies_within_days"] = days
    return type(log_contract()).model_validate(document)


def shown(frame):
    return Counter(map(tuple, frame.collect()))


@pytest.mark.parametrize("days", [0, 2])
def test_copies_are_looked_for_as_many_days_back_as_the_contract_says(logs, days):
    made = replace(logs, contract=seeking(days))
    assert made.events().count() == len(events_of(logs.rows, copies_within_days=days))
    assert counted(quarantined(made)) == left_out(logs.rows, "engagements", copies_within_days=days)


@pytest.fixture(scope="module")
def parts(logs):
    """Events of each date, derived alone from its rows and those of the day before, whatever lies after."""
    whole, found = logs.engagements, []
    for day in DATES:
        near = whole.filter(F.col("day").isin(day, days_before(day, 1))).repartition(3)
        found.append(user_events(near, logs.users, logs.ads, logs.contract, dates=[day]))
    return found


def test_dates_derived_alone_give_the_events_of_all_dates_together(logs, parts):
    alone = sum((shown(part) for part in parts), Counter())
    assert alone == shown(logs.events())
    until = logs.engagements.filter(F.col("day") <= DATES[1])
    early = user_events(until, logs.users, logs.ads, logs.contract)  # later days never change earlier ones
    assert shown(early) == shown(parts[0]) + shown(parts[1])


def test_the_earlier_day_wins_even_where_the_later_one_arrived_first_and_a_chain_of_copies_is_one_event(frames):
    at = _start(DATES[0])
    rows = [event(day=DATES[0], got=at + 9 * SECOND), event(day=DATES[1], got=at), event(day="2024-03-03", got=at)]
    assert [row["date"] for row in frames({"engagements": rows}).events().collect()] == [DATES[0]]
    apart = [rows[0], event(day=DATES[2])]
    assert frames({"engagements": apart}).events().count() == 2


def test_a_faulty_row_hides_no_later_valid_one_and_an_id_of_two_users_is_two_events(frames):
    faulty = event(day=DATES[0], place="nowhere")
    assert frames({"engagements": [faulty, event(day=DATES[1])]}).events().count() == 1
    assert frames({"engagements": [event(), event(uid=2)]}).events().count() == 2


def test_one_exchange_puts_the_events_in_their_place(logs):
    plan = logs.events()._jdf.queryExecution().executedPlan().toString()
    facts = plan.split("BroadcastExchange")[0]
    assert facts.count("Exchange ") == 1


@pytest.mark.parametrize(
    ("seconds", "kept"), [(2 * 86_400, 1), (2 * 86_400 + 1, 0), (-40 * 86_400, 1)], ids=["edge", "beyond", "old"]
)
def test_an_event_may_happen_until_a_day_after_its_partition_and_be_as_old_as_it_is(frames, seconds, kept):
    at = _start(DATES[0]) + seconds * SECOND
    assert frames({"engagements": [event(at=at, got=at)]}).events().count() == kept


def unknowing(**rule):
    document = log_contract().model_dump(mode="json") | {"quality": rule}
    return type(log_contract()).model_validate(document)


@pytest.mark.parametrize(("rule", "kept"), [("keep", {"before", "in", "never"}), ("quarantine", {"in"})])
def test_an_unknown_ad_is_kept_or_quarantined_as_the_contract_says(frames, rule, kept):
    at = _start(DATES[0])
    rows = [event(eid="in"), event(eid="never", aid=9), event(eid="before", at=at - SECOND)]
    ads = [{"aid": 2, "owner_id": 1, "tags": None, "since": at}]
    made = frames({"engagements": rows, "ads": ads}, unknowing(unknown_ads=rule))
    judged = judged_engagements(made.engagements, made.users, made.ads, made.contract)
    assert {row["event_id"] for row in judged.filter("fault IS NULL").collect()} == kept
    assert {row["fault"] for row in judged.filter("fault IS NOT NULL").collect()} <= {"unknown ad"}


@pytest.mark.parametrize(("rule", "kept"), [("keep", {"known", "stranger"}), ("quarantine", {"known"})])
def test_an_unknown_user_is_kept_or_quarantined_as_the_contract_says(frames, rule, kept):
    users = [{"uid": 1, "age": None, "since": _start(DATES[0]), "hidden": False}]
    rows = [event(eid="known"), event(eid="stranger", uid=8)]
    made = frames({"engagements": rows, "users": users}, unknowing(unknown_users=rule))
    judged = judged_engagements(made.engagements, made.users, made.ads, made.contract)
    assert {row["event_id"] for row in judged.filter("fault IS NULL").collect()} == kept


def test_the_order_of_the_input_and_conflicting_copies_change_nothing(frames):
    copies = [event(eid=f"e{i % 40}", acts=[KINDS[i % 3]], aid=i) for i in range(400)]
    hashes = set()
    for rows in (copies, copies[::-1]):
        made = frames({"engagements": rows})
        shuffled = made.engagements.repartition(5)
        events = user_events(shuffled, made.users, made.ads, made.contract)
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
    events = user_events(made.engagements.withColumn("acts", F.lit("like")), made.users, made.ads, made.contract)
    assert events.first()["actions"] == 1 << KINDS.index("like")


def test_string_ids_are_hashed_alike_in_every_table(frames):
    made = frames(
        {"engagements": [event()], "ads": [{"aid": 2, "owner_id": 9, "tags": None, "since": _start(DATES[0])}]}
    )
    text = {name: getattr(made, name).withColumn("aid", F.col("aid").cast("string")) for name in ("engagements", "ads")}
    row = user_events(text["engagements"], made.users, text["ads"], made.contract).first()
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
        user_events(made.engagements.drop(column), made.users, made.ads, made.contract)


@pytest.mark.parametrize(
    ("column", "kind", "said"),
    [("place", "int", "a string"), ("acts", "array<int>", "an array of strings"), ("secs", "string", "a number"),
     ("uid", "double", "an integer or a string"), ("at", "string", "a time is a timestamp"),
     ("at", "timestamp_ntz", "times without a zone"), ("got", "timestamp_ntz", "times without a zone")],
)  # fmt: skip
def test_a_retyped_column_is_refused_by_name(frames, column, kind, said):
    made = frames({"engagements": [event()]})
    retyped = made.engagements.withColumn(column, F.lit(None).cast(kind))
    with pytest.raises(SchemaError, match=f"Column {column} of table engagements has .*{said}"):
        user_events(retyped, made.users, made.ads, made.contract)


def test_an_unknown_extra_column_changes_nothing(frames):
    made = frames({"engagements": [event()]})
    more = made.engagements.withColumn("client_version", F.lit("2.0"))
    assert user_events(more, made.users, made.ads, made.contract).collect() == made.events().collect()
