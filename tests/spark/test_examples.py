from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from datetime import timedelta
from operator import itemgetter

import pytest
from pyspark.sql import functions as F

from gem_pipeline.contracts import tables
from gem_pipeline.contracts.conversions import days_before
from gem_pipeline.errors import SchemaError
from spark.examples import examples, judged_impressions, quarantined_impressions
from spark.judging import anonymous_user
from spark.profile import partition_profile
from tests.oracles.conversions import conversion_contract
from tests.oracles.event_log import (
    DATES,
    SECOND,
    _start,
    by_user,
    examples_of,
    left_out,
    log_contract,
    opted_out,
    random_logs,
)
from tests.spark.test_counters import impression
from tests.spark.test_user_events import event
from tests.spark_frames import arrow, frames_of

pytestmark = pytest.mark.spark


def profile(frame, contract):
    return {row["date"]: row["content_hash"] for row in partition_profile(frame, contract, "examples").collect()}


def plain(row, contract):
    counts = {
        counter.name: [row[tables.count_column(counter.name, kind)] for kind in (None, *counter.kinds)]
        for counter in contract.counters.groups
    }
    return {
        "date": row["date"], "id": row["impression_id"], "ad": row["ad_id"],
        "user": None if row["is_anonymous"] else row["user_id"],
        "surface": row["surface"], "at": row["at_s"], "owner": row["owner"], "tags": row["tags"], "age": row["age"],
        "slot": row["slot"], "hour": row["hour"], "weekday": row["weekday"], "click": row["label__click"],
        "buy": row["label__buy"], "counts": counts,
    }  # fmt: skip


def told(frame):
    """Rows with their time in seconds, and whether their user is a stranger."""
    stranger = F.col("user_id") == anonymous_user("impression_id")
    return frame.withColumns({"at_s": F.unix_seconds("impression_ts"), "is_anonymous": stranger}).collect()


@pytest.fixture(scope="module")
def increments(logs):
    """What the counters of all logs learned, once."""
    return logs.increments().cache()


@pytest.fixture(scope="module")
def derived(logs, increments):
    """The examples of all logs, once."""
    return logs.examples(increments).cache()


@pytest.fixture(scope="module")
def found(derived):
    """Their rows."""
    return told(derived)


@pytest.fixture(scope="module")
def everything(logs, derived):
    """The content of each of their dates."""
    return profile(derived, logs.contract)


def test_two_thousand_random_logs_give_the_examples_of_the_oracle(logs, found):
    wanted = {(e["date"], e["id"]): e | {"at": int(e["at"].timestamp())} for e in examples_of(logs.rows, logs.contract)}
    by_id = {(row["date"], row["impression_id"]): plain(row, logs.contract) for row in found}
    wrong = [(by_id.get(key), row) for key, row in wanted.items() if by_id.get(key) != row]
    assert not wrong, repr(wrong[0])
    assert len(found) == len(wanted) > 5_000


def quarantined(made):
    judged = judged_impressions(made.impressions, made.users, made.ads, made.contract)
    return quarantined_impressions(judged, copies_on=DATES)


def test_every_row_of_two_thousand_random_logs_is_kept_or_quarantined_with_its_reason(logs, found):
    grouped = quarantined(logs).groupBy("date", "reason").count().collect()
    counts = {(row["date"], row["reason"]): row["count"] for row in grouped}
    assert counts == left_out(logs.rows, "impressions")
    kept = Counter(row["date"] for row in found)
    for date in DATES:
        rows = sum(row["day"] == date for row in logs.rows["impressions"])
        assert kept[date] + sum(count for (day, _), count in counts.items() if day == date) == rows
    assert {reason for _, reason in counts} == {
        "null impression_id", "null user_id", "null ad_id", "null impression_ts", "unknown surface",
        "label click not 0 or 1", "ingested before it happened", "happened more than a day off its day",
        "duplicate id",
    }  # fmt: skip


def test_an_impression_of_an_opted_out_user_points_to_nobody(logs, found):
    users = by_user(logs.rows)
    hidden = {(row["day"], row["iid"]) for row in logs.rows["impressions"] if row["iid"] and opted_out(users, row)}
    shown = {(row["day"], row["iid"]) for row in logs.rows["impressions"] if not opted_out(users, row)}
    by_id = {(row["date"], row["impression_id"]): row for row in found}
    rows = [by_id[key] for key in hidden - shown if key in by_id]
    assert len(rows) > 300
    known = {row["uid"] for table in ("impressions", "engagements", "users") for row in logs.rows[table]}
    assert not {row["user_id"] for row in rows} & known
    assert len({row["user_id"] for row in rows}) == len({row["impression_id"] for row in rows})
    assert {row["age"] for row in rows} == {None}
    of_the_user = ("count__user", "count__user__click", "count__old", "count__user_now")
    assert {row[name] for row in rows for name in of_the_user} == {0}
    assert any(row["owner"] is not None for row in rows)
    assert any(row["slot"] is not None for row in rows)


def test_an_example_tells_of_an_opt_out_where_conversions_are_objectives(frames):
    since = _start(DATES[0]) - SECOND
    users = [{"uid": uid, "age": 2.0, "since": since, "hidden": uid == 1} for uid in (1, 2)]
    rows = [impression(DATES[0], iid=str(uid), uid=uid) for uid in (1, 2, 3)]
    made = frames({"impressions": rows, "users": users}, conversion_contract())
    hidden = {row["impression_id"]: row["opted_out"] for row in made.examples().collect()}
    assert hidden == {"1": 1, "2": 0, "3": 0}


def test_a_faulty_impression_of_an_opted_out_user_is_quarantined_by_the_hash_of_its_id(frames):
    users = [{"uid": 1, "age": 2.0, "since": _start(DATES[0]), "hidden": True}]
    rows = quarantined(frames({"impressions": [impression(DATES[0], place="s9")], "users": users})).collect()
    assert [row["reason"] for row in rows] == ["unknown surface"]
    assert re.fullmatch(r'\{"key_hash":-?\d+\}', rows[0]["row"])


def test_of_two_rows_of_a_user_at_one_time_the_one_that_opts_out_holds(frames):
    since = _start(DATES[0])
    users = [{"uid": 1, "age": 2.0, "since": since, "hidden": hidden} for hidden in (False, True, None)]
    made = frames({"impressions": [impression(DATES[0]), impression(DATES[0], seconds=-1)], "users": users})
    ages = {row["impression_id"]: (row["age"], row["user_id"] == 1) for row in made.examples().collect()}
    assert ages == {f"{DATES[0]}+0": (None, False), f"{DATES[0]}+-1": (None, True)}


def test_a_feature_is_null_on_a_surface_that_may_not_use_it(frames):
    ads = [{"aid": 2, "owner_id": 3, "tags": "a", "since": _start(DATES[0])}]
    rows = [impression(DATES[0], iid=place, place=place) for place in ("s1", "s2")]
    found = frames({"impressions": rows, "ads": ads}).examples().collect()
    assert {row["surface"]: row["tags"] for row in found} == {"s1": ["a"], "s2": None}


@pytest.mark.parametrize(("seconds", "kept"), [(-86_401, 0), (-86_400, 1), (2 * 86_400 - 1, 1), (2 * 86_400, 0)])
def test_an_impression_lies_within_a_day_of_its_day(frames, seconds, kept):
    made = frames({"impressions": [impression(DATES[0], seconds)]})
    judged = judged_impressions(made.impressions, made.users, made.ads, made.contract)
    assert judged.filter("fault IS NULL").count() == kept


def test_shuffled_input_and_held_rows_give_the_same_rows(logs, increments, everything):
    shuffled = [frame.repartition(7) for frame in (logs.impressions, logs.users, logs.ads, increments)]
    open_day = replace(logs.open_day(), events=logs.events().repartition(5))
    held = []

    def hold(rows):
        held.append(rows.cache())
        return held[-1]

    again = examples(*shuffled, logs.contract, open_day=open_day, hold=hold)
    assert profile(again, logs.contract) == everything
    held[0].unpersist()


def test_later_days_and_their_events_never_change_earlier_features(logs, everything):
    early = logs.only(*DATES[:3])
    found = profile(early.examples(early.increments(DATES[:3])), logs.contract)
    assert found == {date: everything[date] for date in DATES[:3]}


def test_a_range_of_dates_equals_day_by_day_runs(logs, increments, everything):
    for date in DATES:
        day = replace(logs, impressions=logs.impressions.filter(F.col("day") == date))
        assert profile(day.examples(increments), logs.contract) == {date: everything[date]}


def test_events_that_were_late_within_the_allowance_give_the_same_examples_as_timely_ones(logs, spark, everything):
    late = logs.contract.visibility.allowance_s * SECOND
    rows = [
        row | {"got": row["at"]} if None not in (row["at"], row["got"]) and row["got"] - row["at"] == late else row
        for row in logs.rows["engagements"]
    ]
    assert sum(one != other for one, other in zip(rows, logs.rows["engagements"], strict=True)) > 1000
    timely = replace(
        logs, rows=logs.rows | {"engagements": rows}, engagements=spark.createDataFrame(arrow("engagements", rows))
    )
    assert profile(timely.examples(), logs.contract) == everything


def shifted(rows, days):
    """The same logs so many days later."""
    move = {"at", "got", "since"}
    return {
        table: [
            {c: v + timedelta(days=days) if c in move and v is not None else v for c, v in row.items()}
            | ({"day": days_before(row["day"], -days)} if "day" in row else {})
            for row in found
        ]
        for table, found in rows.items()
    }


@pytest.mark.parametrize(
    ("first", "zone"),
    [("2024-02-28", "Asia/Kolkata"), ("2024-03-09", "America/New_York"), ("2024-10-26", "Europe/Berlin")],
)
def test_leap_days_and_changing_clocks_of_the_sessions_zone_change_nothing(spark, first, zone):
    days = (_start(first) - _start(DATES[0])).days
    moved = frames_of(spark, shifted(random_logs(100, seed=3), days), log_contract())
    dates = tuple(sorted({row["day"] for row in moved.rows["impressions"]}))
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        found = told(moved.examples(moved.increments(dates)))
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    wanted = [e | {"at": int(e["at"].timestamp())} for e in examples_of(moved.rows, moved.contract)]
    key = itemgetter("date", "id")
    assert sorted((plain(row, moved.contract) for row in found), key=key) == sorted(wanted, key=key)
    assert len(wanted) > 300


def test_a_late_event_changes_nothing_before_it_was_known(frames):
    shown = [impression(day) for day in DATES]
    known = event(eid="late", at=_start(DATES[0]) + 9 * SECOND, got=_start(DATES[1]) + 30 * SECOND)
    without = frames({"impressions": shown, "engagements": [event(stream="import")]})
    late = frames({"impressions": shown, "engagements": [event(stream="import"), known]})
    before, after = (profile(made.examples(), made.contract) for made in (without, late))
    assert [date for date in DATES if before[date] != after[date]] == list(DATES[2:])


def test_a_label_is_null_where_the_surface_does_not_optimise_it(frames):
    rows = [impression(DATES[0], place="s1", iid="a", bought=1), impression(DATES[0], place="s2", iid="b", bought=1)]
    found = {r["impression_id"]: r["label__buy"] for r in frames({"impressions": rows}).examples().collect()}
    assert found == {"a": 1, "b": None}


def test_not_a_number_is_null(frames):
    made = frames({"impressions": [impression(DATES[0], slot=float("nan"))]})
    assert made.examples().first()["slot"] is None


def test_the_columns_are_those_of_the_schema(frames):
    made = frames({"impressions": [impression(DATES[0])]})
    schema = tables.examples(made.contract)
    found = made.examples()
    assert tuple(found.columns) == schema.column_names
    assert [kind.upper() for _, kind in found.dtypes] == [schema.spark_type(name) for name in schema.column_names]


def test_a_missing_label_column_is_named(frames):
    made = frames({"impressions": [impression(DATES[0])]})
    with pytest.raises(SchemaError, match="impressions lacks column bought"):
        replace(made, impressions=made.impressions.drop("bought")).examples()


@pytest.mark.parametrize(
    ("column", "kind", "said"),
    [("place", "int", "a string"), ("clicked", "string", "an integer or a boolean"), ("slot", "string", "a number"),
     ("at", "timestamp_ntz", "times without a zone")],
)  # fmt: skip
def test_a_retyped_column_is_refused_by_name(frames, column, kind, said):
    made = frames({"impressions": [impression(DATES[0])]})
    retyped = made.impressions.withColumn(column, F.lit(None).cast(kind))
    with pytest.raises(SchemaError, match=f"Column {column} of table impressions has .*{said}"):
        replace(made, impressions=retyped).examples()
