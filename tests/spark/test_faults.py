"""Injected faults have the asked shares, hit the same rows every time, and lose nothing."""

from __future__ import annotations

import math

import pytest
from pyspark.sql import functions as F

from gem_pipeline.contracts.worlds import Faults
from spark.faults import DRIFTED_COLUMN, NO_SUCH_SURFACE, is_late, with_faults

DAYS = ("2026-01-02", "2026-01-03")
NUM = 4000  # rows a day


@pytest.fixture(scope="module")
def rows(spark):
    made = spark.range(2 * NUM).select(
        F.col("id").alias("event_id"), F.lit(1).cast("bigint").alias("user_id"), F.col("id").alias("content_id"),
        F.lit("feed").alias("surface"), F.lit(0.5).cast("float").alias("scroll_depth"),
        F.timestamp_seconds(F.lit(1_767_312_000) + F.col("id")).alias("event_ts"),
        F.timestamp_seconds(F.lit(1_767_312_005) + F.col("id")).alias("ingest_ts"),
        F.when(F.col("id") < NUM, F.lit(DAYS[0])).otherwise(F.lit(DAYS[1])).alias("date"),
    ).persist()  # fmt: skip
    yield made
    made.unpersist()


def margin(share):
    """Six standard deviations of a count."""
    return 6 * math.sqrt(2 * NUM * share * (1 - share))


def test_no_fault_changes_nothing(rows):
    assert with_faults(rows, None, Faults()).exceptAll(rows).count() == 0


def test_duplicates_are_copies_of_the_asked_share(rows):
    faulty = with_faults(rows, None, Faults(duplicates=0.05))
    extra = faulty.count() - 2 * NUM
    assert abs(extra - 0.05 * 2 * NUM) < margin(0.05)
    assert faulty.distinct().count() == 2 * NUM


def test_a_late_row_moves_to_the_next_partition_and_none_is_lost(rows):
    faults = Faults(late=0.1)
    today, before = rows.filter(F.col("date") == DAYS[1]), rows.filter(F.col("date") == DAYS[0])
    moved = before.withColumn("date", F.lit(DAYS[1]))
    first = with_faults(before, None, faults)
    second = with_faults(today, moved, faults)
    assert first.count() + second.count() + today.filter(is_late(faults)).count() == 2 * NUM
    late = second.filter("event_id < 4000")
    assert late.count() == before.filter(is_late(faults)).count() > 0
    assert late.filter("ingest_ts < event_ts + interval 1 day").count() == 0


def test_nulls_hit_one_key_of_a_row(rows):
    faulty = with_faults(rows, None, Faults(nulls=0.06))
    lost = faulty.select(
        sum(F.col(name).isNull().cast("int") for name in ("user_id", "content_id", "event_ts")).alias("n")
    )
    counts = {row["n"]: row["count"] for row in lost.groupBy("n").count().collect()}
    assert set(counts) == {0, 1}
    assert abs(counts[1] - 0.06 * 2 * NUM) < margin(0.06)


def test_a_corrupt_day_names_no_known_surface_and_other_days_are_whole(rows):
    faulty = with_faults(rows, None, Faults(corrupt_days=(DAYS[1],)))
    found = {(row["date"], row["surface"]) for row in faulty.select("date", "surface").distinct().collect()}
    assert found == {(DAYS[0], "feed"), (DAYS[1], NO_SUCH_SURFACE)}


def test_drift_adds_one_column_and_empties_another_from_its_day_on(rows):
    faulty = with_faults(rows, None, Faults(drift_from=DAYS[1]))
    assert faulty.filter(f"date = '{DAYS[0]}' AND ({DRIFTED_COLUMN} IS NOT NULL OR scroll_depth IS NULL)").count() == 0
    assert faulty.filter(f"date = '{DAYS[1]}' AND ({DRIFTED_COLUMN} IS NULL OR scroll_depth IS NOT NULL)").count() == 0


def test_reordering_changes_the_order_and_nothing_else(rows):
    faulty = with_faults(rows.coalesce(1), None, Faults(reordered=True))
    ids = [row["event_id"] for row in faulty.select("event_id").collect()]
    assert ids != sorted(ids)
    assert sorted(ids) == list(range(2 * NUM))
