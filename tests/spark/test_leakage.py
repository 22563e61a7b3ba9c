from __future__ import annotations

import pytest
from pyspark.sql import functions as F

from gem_pipeline.quality.leakage import recount
from spark.leakage import recount_sample

pytestmark = pytest.mark.spark


def sample_and_batches(logs, num_rows):
    sample = recount_sample(logs.examples(), logs.ads, logs.contract, num_rows=num_rows)
    rows = [row.asDict() for row in sample.withColumn("impression_us", F.unix_micros("impression_ts")).collect()]
    return rows, logs.events().toArrow().to_batches()


def test_two_thousand_random_logs_leak_nothing(logs):
    rows, batches = sample_and_batches(logs, num_rows=150)
    assert len(rows) == 600
    checks = recount(rows, batches, logs.contract)
    assert {check.passed for check in checks.values()} == {True}


def test_a_planted_leak_in_any_counter_is_found(logs):
    rows, batches = sample_and_batches(logs, num_rows=3)
    for column in ("count__user", "count__all__click", "count__owner", "count__ad_place", "count__old__like"):
        planted = [row | {column: row[column] + 10_000} for row in rows]
        checks = recount(planted, batches, logs.contract)
        assert {check.passed for check in checks.values()} == {False}
