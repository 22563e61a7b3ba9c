from __future__ import annotations

import pytest
from pyspark.sql import functions as F

from gem_pipeline.quality.validate import validate
from tests.oracles.event_log import log_contract

pytestmark = pytest.mark.spark

ROW = {
    "date": "2024-03-01",
    "counter": "all",
    "key": "",
    "events": 2,
    "kind__view": 0,
    "kind__click": 1,
    "kind__like": 0,
}
TYPES = (
    "date string, counter string, key string, events bigint, kind__view bigint, kind__click bigint, kind__like bigint"
)


def judged(spark, *rows, change=lambda frame: frame, docs=None):
    frame = change(spark.createDataFrame([tuple((ROW | row).values()) for row in rows], TYPES))
    return {check.name: check for check in validate(frame, log_contract(), "counter_increments", docs=docs)}


def failed(checks):
    return {name for name, check in checks.items() if not check.passed}


def test_good_rows_pass_and_leave_docs_and_nothing_in_memory(spark, tmp_path):
    before = spark.sparkContext._jsc.getPersistentRDDs().size()
    checks = judged(spark, {}, {"key": "1"}, docs=tmp_path / "docs" / "a.html")
    assert failed(checks) == set()
    assert "no_nulls" in checks
    assert "<html" in (tmp_path / "docs" / "a.html").read_text()
    assert spark.sparkContext._jsc.getPersistentRDDs().size() == before


@pytest.mark.parametrize(
    ("row", "rule"),
    [
        ({"key": None}, "no_nulls"),
        ({"counter": "other"}, "column_values_to_be_in_set__counter"),
        ({"kind__click": 3}, "counts_fit"),
        ({"kind__like": -1}, "counts_fit"),
        ({"events": 0, "kind__click": 0}, "counts_fit"),
        ({"key": "1"}, "key_is_unique"),
    ],
)
def test_a_faulty_row_fails_its_rule_and_is_counted(spark, row, rule):
    checks = judged(spark, {"key": "1"}, row)
    assert failed(checks) == {rule}
    assert checks[rule].unexpected_count == 1


def test_a_rule_that_cannot_be_computed_has_not_passed(spark):
    checks = judged(spark, {}, change=lambda frame: frame.drop("counter").withColumn("x", F.lit(1)))
    assert {"table_columns_to_match_ordered_list", "column_values_to_be_in_set__counter", "no_nulls"} <= failed(checks)
