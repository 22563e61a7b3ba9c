"""Faults put into engagements on purpose: each row's fate is a hash of its id, the same at every run. Ours."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from gem_pipeline.contracts.worlds import Faults

NO_SUCH_SURFACE = "corrupted"
LATE_S = 86_400
NULLED = ("user_id", "content_id", "event_ts")
DRIFTED_COLUMN = "client_version"


def _share(purpose: str) -> Column:
    """A number in [0, 1) a row, from its id."""
    return F.pmod(F.xxhash64(F.lit(purpose), "event_id"), F.lit(1_000_003)) / 1_000_003


def is_late(faults: Faults) -> Column:
    """Whether a row is delivered with the next day's partition."""
    return _share("late") < faults.late


def with_faults(rows: DataFrame, day_before: DataFrame | None, faults: Faults) -> DataFrame:
    """Engagements as a faulty platform delivers them.

    Args:
        rows: engagements of some days.
        day_before: engagements of the days before these, one for one; read only for late rows. Their `date` is
            already that of the partition in which they arrive. None: nothing arrives late.
        faults: shares and days.
    """
    if faults.late:
        rows = rows.filter(~is_late(faults))
        if day_before is not None:
            late = day_before.filter(is_late(faults))
            arrived = F.greatest("ingest_ts", F.col("event_ts") + F.make_dt_interval(secs=F.lit(LATE_S)))
            rows = rows.unionByName(late.withColumn("ingest_ts", arrived))
    if faults.duplicates:
        rows = rows.unionByName(rows.filter(_share("duplicate") < faults.duplicates))
    if faults.nulls:
        lost = F.when(_share("null") < faults.nulls, F.pmod(F.xxhash64(F.lit("which"), "event_id"), F.lit(3)))
        for index, name in enumerate(NULLED):
            rows = rows.withColumn(name, F.when(F.coalesce(lost != index, F.lit(True)), F.col(name)))
    if faults.corrupt_days:
        corrupt = F.col("date").isin(*faults.corrupt_days)
        rows = rows.withColumn("surface", F.when(corrupt, F.lit(NO_SUCH_SURFACE)).otherwise(F.col("surface")))
    if faults.drift_from is not None:
        drifted = F.col("date") >= faults.drift_from
        rows = rows.withColumn(DRIFTED_COLUMN, F.when(drifted, F.lit("2.0")))
        rows = rows.withColumn("scroll_depth", F.when(~drifted, F.col("scroll_depth")))
    if faults.reordered:
        rows = rows.sortWithinPartitions(_share("order"))
    return rows
