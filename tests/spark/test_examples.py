from __future__ import annotations

from dataclasses import replace

import pytest
from pyspark.sql import functions as F

from gem_pipeline.contracts import tables
from gem_pipeline.errors import SchemaError
from spark.examples import examples, quarantined_impressions
from spark.profile import partition_profile
from tests.oracles.event_log import DATES, SECOND, _start, examples_of, impression_fault
from tests.spark.test_counters import impression
from tests.spark.test_user_events import event

pytestmark = pytest.mark.spark


def profile(frame, contract):
    return {row["date"]: row["content_hash"] for row in partition_profile(frame, contract, "examples").collect()}


def plain(row, contract):
    counts = {
        counter.name: [row[tables.count_column(counter.name, kind)] for kind in (None, *counter.kinds)]
        for counter in contract.counters.groups
    }
    return {
        "date": row["date"], "id": row["impression_id"], "user": row["user_id"], "ad": row["ad_id"],
        "surface": row["surface"], "at": row["at_s"], "owner": row["owner"], "tags": row["tags"], "age": row["age"],
        "slot": row["slot"], "hour": row["hour"], "weekday": row["weekday"], "click": row["label__click"],
        "buy": row["label__buy"], "counts": counts,
    }  # fmt: skip


def test_two_thousand_random_logs_give_the_examples_of_the_oracle(logs):
    found = logs.examples().withColumn("at_s", F.unix_seconds("impression_ts")).collect()
    wanted = {(e["date"], e["id"]): e | {"at": int(e["at"].timestamp())} for e in examples_of(logs.rows, logs.contract)}
    derived = {(row["date"], row["impression_id"]): plain(row, logs.contract) for row in found}
    wrong = [(derived.get(key), row) for key, row in wanted.items() if derived.get(key) != row]
    assert not wrong, repr(wrong[0])
    assert len(found) == len(wanted) > 5_000


def test_what_is_left_out_is_quarantined(logs):
    quarantined = quarantined_impressions(logs.impressions, logs.contract)
    assert quarantined.count() == sum(impression_fault(row) for row in logs.rows["impressions"])


def test_shuffled_input_and_unbroadcast_counters_give_the_same_rows(logs):
    increments = logs.increments().cache()
    contract = logs.contract
    once = profile(logs.examples(increments), contract)
    shuffled = [frame.repartition(7) for frame in (logs.impressions, logs.users, logs.ads, increments)]
    assert profile(examples(*shuffled, contract, broadcast_counters=False), contract) == once


def test_later_days_and_their_events_never_change_earlier_features(logs):
    everything = profile(logs.examples(), logs.contract)
    early = logs.only(*DATES[:3])
    found = profile(early.examples(early.increments(DATES[:3])), logs.contract)
    assert found == {date: everything[date] for date in DATES[:3]}


def test_a_range_of_dates_equals_day_by_day_runs(logs):
    increments = logs.increments().cache()
    together = profile(logs.examples(increments), logs.contract)
    for date in DATES:
        day = replace(logs, impressions=logs.impressions.filter(F.col("day") == date))
        assert profile(day.examples(increments), logs.contract) == {date: together[date]}


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
