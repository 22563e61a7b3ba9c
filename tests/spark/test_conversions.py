"""Attribution equals a naive oracle over many random logs in one job, and a partition depends on its reach only."""

from __future__ import annotations

import re
from collections import Counter
from datetime import timedelta
from functools import partial

import pyarrow as pa
import pytest
from pyspark.sql import functions as F

from gem_pipeline.contracts import tables
from gem_pipeline.contracts.conversions import days_before
from gem_pipeline.errors import SchemaError
from spark.conversions import (
    attributed_conversions,
    credited,
    judged_conversions,
    quarantined_conversions,
    settled_conversions,
)
from spark.profile import partition_profile
from tests.oracles.conversions import (
    ADS,
    CONVERSIONS,
    DAYS,
    TOUCHES,
    attributed,
    conversion_contract,
    conversion_fault,
    random_touches,
    valid_once,
)
from tests.oracles.event_log import SECOND, _start, by_user
from tests.spark_frames import BRONZE

pytestmark = pytest.mark.spark
NUM_LOGS = 2000
AD = conversion_contract()
COLUMNS = ("date", "impression_id", "objective", "conversion_key", "arrived", "value", "attribution")


@pytest.fixture(scope="module")
def rows():
    return random_touches(NUM_LOGS, seed=11)


@pytest.fixture(scope="module")
def frames(spark):
    def make(rows):
        named = (("conversions", CONVERSIONS), ("touches", TOUCHES), ("users", BRONZE["users"]), ("ads", ADS))
        return [
            spark.createDataFrame(pa.Table.from_pylist(rows[table], schema=pa.schema(list(kinds.items())))).cache()
            for table, kinds in named
        ]

    return make


@pytest.fixture(scope="module")
def random_frames(frames, rows):
    return frames(rows)


def found(frame):
    return sorted(map(tuple, frame.select(*COLUMNS).collect()), key=repr)


@pytest.mark.parametrize("match", ["ad", "owner"])
def test_two_thousand_random_logs_are_attributed_as_by_the_oracle(random_frames, rows, match):
    contract = conversion_contract(match)
    expected = sorted(attributed(rows, contract), key=repr)
    derived = credited(*random_frames, contract)
    assert found(derived) == expected
    assert derived.columns == list(tables.attributed_conversions().column_names)
    assert {how for *_, how in expected} == {"click", "view"}
    assert len(expected) > 400


def test_a_conversion_is_credited_at_most_once_for_an_objective(random_frames, rows):
    counted = Counter((row[3], row[4], row[2]) for row in found(credited(*random_frames, AD)))
    assert set(counted.values()) == {1}


def test_a_conversion_is_credited_or_quarantined_with_its_reason_and_none_is_lost(random_frames, rows):
    left_out = quarantined_conversions(settled_conversions(*random_frames, AD, DAYS[1:4]))
    reasons = Counter((row["date"], row["reason"]) for row in left_out.select("date", "reason").collect())
    users, valid = by_user(rows), valid_once(rows, AD)
    matched = {(row[3], row[4]) for row in attributed(rows, AD)}
    faults = [(row["day"], conversion_fault(row, AD, users)) for row in rows["conversions"]]
    expected = Counter(fault for fault in faults if fault[1])
    expected += Counter((r["day"], "not attributed") for r in valid if (r["cid"], r["day"]) not in matched)
    once, all_valid = Counter(r["day"] for r in valid), Counter(day for day, fault in faults if not fault)
    expected += Counter({(day, "duplicate id"): n for day, n in (all_valid - once).items()})
    assert reasons == Counter({key: count for key, count in expected.items() if key[0] in DAYS[1:4]})
    assert {reason for _, reason in reasons} >= {"opted out", "duplicate id", "not attributed", "arrived too late"}
    days = DAYS[1:4]
    kept = Counter(day for _, day in matched)
    sources = Counter(row["day"] for row in rows["conversions"])
    lost = {day: sources[day] - kept[day] - sum(n for (d, _), n in reasons.items() if d == day) for day in days}
    assert lost == dict.fromkeys(days, 0)


def test_of_an_opted_out_users_conversion_nothing_is_kept_but_a_hash(random_frames):
    left_out = quarantined_conversions(settled_conversions(*random_frames, AD, DAYS))
    rows = [row["row"] for row in left_out.filter("reason = 'opted out'").select("row").collect()]
    assert rows
    assert all(re.fullmatch(r'\{("key_hash":-?\d+)?\}', row) for row in rows)


def test_the_order_of_the_input_changes_nothing(random_frames):
    profiles = [
        sorted(map(tuple, partition_profile(credited(*some, AD), AD, "attributed_conversions").collect()))
        for some in (random_frames, [frame.repartition(7) for frame in random_frames])
    ]
    assert profiles[0] == profiles[1]


def test_a_partition_depends_on_what_is_within_its_reach_only(random_frames):
    conversions, touches, *dimensions = random_frames
    day, reach = DAYS[2], AD.conversion_reach_days
    near = partial(F.Column.between, lowerBound=days_before(day, reach), upperBound=days_before(day, -reach))
    some = conversions.filter(near(F.col("day"))), touches.filter(near(F.col("date"))), *dimensions
    whole = [row for row in found(credited(*random_frames, AD)) if row[0] == day]
    assert found(attributed_conversions(*some, AD, (day,))) == whole


def touch(name, at, clicked=0, ad=1):
    return {"date": str(at.date()), "bucket": 0, "impression_id": name, "user_id": 1, "ad_id": ad,
            "impression_ts": at, "label__click": clicked}  # fmt: skip


def conversion(at, what="purchase", **changes):
    row = {"cid": "c", "uid": 1, "aid": 1, "what": what, "paid": None, "at": at, "got": at, "day": str(at.date())}
    return row | changes


NOON = _start(DAYS[1]) + timedelta(hours=12)


@pytest.mark.parametrize(
    ("touches", "after", "expected"),
    [
        ([touch("a", NOON)], timedelta(0), {}),
        ([touch("a", NOON)], timedelta(days=1), {"order": ("a", "view")}),
        ([touch("a", NOON)], timedelta(days=1) + SECOND, {}),
        ([touch("a", NOON, 1)], timedelta(days=1), {"order": ("a", "click"), "fast_order": ("a", "click")}),
        ([touch("a", NOON, 1)], timedelta(days=2), {"order": ("a", "click")}),
        ([touch("a", NOON, 1)], timedelta(days=2) + SECOND, {}),
        ([touch("a", NOON, 1), touch("b", NOON + SECOND)], timedelta(hours=1),
         {"order": ("a", "click"), "fast_order": ("a", "click")}),
        ([touch("a", NOON, 1), touch("b", NOON, 1)], timedelta(hours=1),
         {"order": ("b", "click"), "fast_order": ("b", "click")}),
        ([touch("a", NOON, 1, ad=2)], timedelta(hours=1), {}),
    ],
)  # fmt: skip
def test_the_last_touch_within_the_window_gets_the_credit(frames, touches, after, expected):
    derived = credited(
        *frames({"touches": touches, "conversions": [conversion(NOON + after)], "users": [], "ads": []}), AD
    )
    assert {row[2]: (row[1], row[6]) for row in found(derived)} == expected


@pytest.mark.parametrize(("late", "kept"), [(timedelta(0), 1), (SECOND, 0)], ids=["edge", "beyond"])
def test_late_arrivals_go_by_the_conversions_own_limit(frames, late, kept):
    document = conversion_contract().model_dump(mode="json")
    document["tables"]["conversions"]["max_delay_days"] = 3
    contract = type(AD).model_validate(document)
    got = NOON + SECOND + timedelta(days=3) + late
    arrived = conversion(NOON + SECOND, "lead", got=got, day=str(got.date()))
    made = frames({"touches": [touch("a", NOON)], "conversions": [arrived], "users": [], "ads": []})
    assert len(found(credited(*made, contract))) == kept


def test_a_missing_column_and_a_time_that_is_none_are_named(random_frames):
    conversions, _, users, _ = random_frames
    with pytest.raises(SchemaError, match="Table conversions lacks column what"):
        judged_conversions(conversions.drop("what"), users, AD)
    with pytest.raises(SchemaError, match="Column at of table conversions has type string"):
        judged_conversions(conversions.withColumn("at", F.col("at").cast("string")), users, AD)
