"""Source rows are counted by what became of them, kept where they were left out, and held against the limit."""

from __future__ import annotations

import pytest

from gem_pipeline.contracts.contract import DataContract
from gem_pipeline.errors import GateError, PartitionError
from gem_pipeline.quality.gate import read_gate
from resources.lake import DeltaLake
from resources.quarantine import LeftOut, SourceCount, count_source, keep_left_out, share_check
from tests.oracles.event_log import DATES, left_out, log_contract
from tests.resources.silver_lake import silver_lake


def limited(limit):
    document = log_contract().model_dump(mode="json") | {"quality": {"max_quarantined_share": limit}}
    return DataContract.model_validate(document)


COUNT = SourceCount(num_rows=200, left_out={"duplicate id": 4, "null user_id": 6, "opted out": 100})


@pytest.mark.parametrize(("limit", "passed"), [(0.05, True), (0.049, False), ({"examples": 0.0}, True)])
def test_the_share_of_faulty_rows_is_judged_and_a_users_choice_is_no_fault(limit, passed):
    check = share_check(limited(limit), "user_events", COUNT)
    assert (check.passed, check.unexpected_count) == (passed, 10)
    assert "0.0500 of 200 rows" in str(check.observed)
    assert "duplicate id: 4, null user_id: 6" in str(check.observed)


def test_a_table_that_leaves_nothing_out_counts_nothing():
    assert count_source(None, {}, ("d",)) == {"d": SourceCount()}


def judged(spark, rows):
    frame = spark.createDataFrame(rows, "date string, fault string")
    asked = []

    def found(copies_on):
        asked.append(copies_on)
        return frame.filter("fault IS NOT NULL").selectExpr("date", "fault AS reason", "'x' AS row")

    return LeftOut(source="engagements", judged=frame, rows=found, has_copies=True), asked


@pytest.mark.spark
def test_copies_are_what_was_neither_kept_nor_faulty_and_are_looked_for_only_where_there_are_some(spark, tmp_path):
    made, asked = judged(spark, [("a", None), ("a", None), ("a", "bad"), ("b", None), ("b", "bad")])
    counts = count_source(made, {"a": 1, "b": 1}, ("a", "b"))
    assert counts == {
        "a": SourceCount(num_rows=3, left_out={"bad": 1, "duplicate id": 1}),
        "b": SourceCount(num_rows=2, left_out={"bad": 1}),
    }
    keep_left_out(DeltaLake(str(tmp_path)), made, "user_events", counts)
    assert asked == [("a",)]


@pytest.mark.spark
def test_a_clean_day_writes_no_quarantine_and_a_mended_one_empties_its_own(spark, tmp_path):
    lake = DeltaLake(str(tmp_path))
    clean, asked = judged(spark, [("a", None)])
    keep_left_out(lake, clean, "user_events", count_source(clean, {"a": 1}, ("a",)))
    assert (asked, lake.version("quarantine/user_events")) == ([], None)
    faulty, _ = judged(spark, [("a", "bad")])
    keep_left_out(lake, faulty, "user_events", count_source(faulty, {}, ("a",)))
    assert set(lake.fingerprints("quarantine/user_events")) == {"a"}
    keep_left_out(lake, clean, "user_events", count_source(clean, {"a": 1}, ("a",)))
    assert lake.fingerprints("quarantine/user_events") == {}


@pytest.mark.spark
def test_a_day_without_any_source_row_is_refused(spark):
    made, _ = judged(spark, [("a", None)])
    with pytest.raises(PartitionError, match="Table engagements has 0 rows for date b"):
        count_source(made, {"a": 1}, ("a", "b"))


@pytest.mark.spark
def test_a_date_above_the_limit_fails_its_gate_with_table_reasons_and_counts(spark, tmp_path):
    made = silver_lake(tmp_path, spark, num_logs=10)
    made.contract = limited({"user_events": 0.0})
    counts = {reason: n for (day, reason), n in left_out(made.rows, "engagements").items() if day == DATES[0]}
    faults = {reason: n for reason, n in counts.items() if reason != "opted out"}
    assert faults
    with pytest.raises(GateError) as caught:
        made.derivation.user_events(DATES[:1])
    for told in ("Table user_events", DATES[0], "quarantined_share", *(f"{r}: {n}" for r, n in faults.items())):
        assert told in caught.value.message
    assert made.derivation.lake.fingerprints("user_events") == {}
    marker = read_gate(tmp_path, "user_events", DATES[0])
    assert marker.quarantined == counts
