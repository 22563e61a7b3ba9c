"""`user_events`: every event once, all kinds and surfaces on one time line (OneSeq)."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from gem_pipeline.contracts import tables
from gem_pipeline.contracts.contract import DataContract
from gem_pipeline.contracts.conversions import days_before
from spark.dimensions import event_attributes
from spark.expressions import attributes_as_of, column_type, hashed_id, typed, user_bucket, utc_time
from spark.judging import (
    DAY_US,
    DUPLICATE,
    OPTED_OUT,
    STATES,
    day_offset_us,
    first_fault,
    not_among,
    null_faults,
    quarantine_rows,
    unknown_faults,
    with_ad_state,
    with_user_state,
)
from spark.kinds import has_unknown_kind, kind_bits


def judged_engagements(
    engagements: DataFrame, users: DataFrame, ads: DataFrame, contract: DataContract
) -> DataFrame:  # fmt: skip
    """Rename the contract's columns to their roles and name what is wrong with each row.

    Returns:
        One row an input row: the columns of `user_events` but attributes, and those that judging adds
        (`fault`: null for none).

    Raises:
        SchemaError: a column that the contract names is missing or has an unusable type.
    """
    ref, table = contract.tables.engagements, "engagements"
    column_type(engagements, ref.key, table)
    surface, source = (F.col(typed(engagements, column, table, "string")) for column in (ref.surface, ref.source))
    kinds = F.col(typed(engagements, ref.actions, table, "actions"))
    is_array = isinstance(column_type(engagements, ref.actions, table), T.ArrayType)
    event_ts = utc_time(engagements, ref.event_ts, table)
    value = (
        F.col(typed(engagements, ref.value, table, "number")).cast("float") if ref.value else F.lit(None).cast("float")
    )
    rows = engagements.select(
        F.col(typed(engagements, contract.partition.column, table, "day")).cast("string").alias("date"),
        F.col(ref.key).cast("string").alias("event_id"),
        hashed_id(engagements, ref.user, table).alias("user_id"),
        hashed_id(engagements, ref.ad, table).alias("ad_id"),
        surface.alias("surface"),
        source.alias("source"),
        (kinds if is_array else F.array(kinds)).cast("array<string>").alias("kinds"),
        F.when(~F.isnan(value.cast("float")), value.cast("float")).alias("value"),
        event_ts.alias("event_ts"),
        (utc_time(engagements, ref.ingest_ts, table) if ref.ingest_ts else event_ts).alias("ingest_ts"),
        F.xxhash64(F.col(ref.key).cast("string")).alias("event_key"),  # a number sorts faster than the id
    )
    judged = with_user_state(rows, users, contract, time="event_ts")
    return with_ad_state(judged, ads, contract, time="event_ts").withColumn("fault", _fault(contract))


def _fault(contract: DataContract) -> Column:
    return first_fault([
        (F.col("opted_out"), OPTED_OUT),
        *null_faults(("event_id", "user_id", "ad_id", "event_ts", "ingest_ts", "kinds")),
        not_among("surface", contract.surfaces, "unknown surface"),
        not_among("source", contract.sequence.sources, "unknown source"),
        (has_unknown_kind("kinds", contract.sequence.kinds), "unknown kind"),
        *unknown_faults(),
        (F.col("ingest_ts") < F.col("event_ts"), "ingested before it happened"),
        (day_offset_us("event_ts") > 2 * DAY_US, "happened more than a day after its day"),
    ])  # fmt: skip


def user_events(
    engagements: DataFrame, users: DataFrame, ads: DataFrame, contract: DataContract,
    *, dates: Sequence[str] | None = None,
) -> DataFrame:  # fmt: skip
    """Derive the rows of `user_events` for some date partitions of `engagements`.

    An event counts once; see `_marked` for what a copy is.

    Args:
        engagements: bronze rows of the date partitions, and of those in which they may have been before
            (`copies_within_days`).
        users: bronze user dimension; read where the contract judges users.
        ads: bronze ad dimension.
        contract: names columns, surfaces, sources, kinds and attributes.
        dates: the date partitions; None: all that `engagements` has.

    Returns:
        Rows with exactly the columns of the table's schema; rows with a fault and later copies are left out
        (they are `quarantined_engagements`). All rows of a bucket are in one partition of the frame.
    """
    schema = tables.user_events(contract)
    kept = judged_engagements(engagements, users, ads, contract).filter("fault IS NULL").drop(*STATES)
    events = _placed(kept, contract).drop("event_id", "kinds")
    # One exchange, by what the table is clustered by; the window and the order of storage need no other.
    together = events.repartitionById(contract.visibility.user_buckets, F.col("bucket"))
    once = _marked(together, contract).filter("NOT _copy").drop("_copy")
    if dates is not None:
        once = once.filter(F.col("date").isin(*dates))
    with_attributes = attributes_as_of(
        once,
        event_attributes(ads, contract),
        key="ad_id",
        time="event_ts",
        has_validity=contract.tables.ads.valid_from is not None,
    )
    names = {a.name: f"attribute__{a.name}" for a in contract.sequence.attributes}
    return with_attributes.select(
        *(F.col(names.get(c.name, c.name)).cast(schema.spark_type(c.name)).alias(c.name) for c in schema.columns)
    )


def _placed(judged: DataFrame, contract: DataContract) -> DataFrame:
    """Add the bucket of the user and the bits of the kinds."""
    bits = kind_bits("kinds", contract.sequence.kinds)
    return judged.withColumns({"bucket": user_bucket(F.col("user_id"), contract), "actions": bits})


def _marked(valid: DataFrame, contract: DataContract, *, ties: Sequence[str] = ()) -> DataFrame:
    """Add `_copy`: whether the same user had the same event id before, in the partition or shortly before it.

    Before: in one of the `copies_within_days` date partitions before its own, or in its own partition but earlier by
    arrival; rows that arrived together go by their values. So the first date always wins, whatever was kept of it,
    and no date depends on a later one, or on which dates are derived together. An id that two users share is two
    events. Ours.

    Args:
        valid: rows without a fault and with `bucket` and `actions`, of the dates and of the days before them.
        contract: says how far back copies are looked for.
        ties: more columns that tell rows apart which are alike in every column of the table.
    """
    values = ("event_ts", "ad_id", "actions", "surface", "source", "value", *ties)
    key = Window.partitionBy("user_id", "event_key", "bucket").orderBy("date", "ingest_ts", *values)
    before = valid.withColumn("_before", F.lag("date").over(key))
    days = F.datediff(F.col("date").try_cast("date"), F.col("_before").try_cast("date"))
    again = (F.col("_before") == F.col("date")) | (days <= contract.tables.engagements.copies_within_days)
    return before.withColumn("_copy", F.coalesce(again, F.lit(False))).drop("_before")


def quarantined_engagements(
    judged: DataFrame, contract: DataContract, *, dates: Sequence[str], copies_on: Sequence[str]
) -> DataFrame:
    """Rows of some dates of `judged_engagements` that `user_events` left out; see `left_out`.

    Args:
        judged: rows of the dates, and of the days before them in which copies are looked for.
        contract: says how far back copies are looked for.
        dates: the date partitions.
        copies_on: those of them known to hold copies of valid rows; finding them costs a shuffle.
    """
    faulty = judged.filter(F.col("fault").isNotNull() & F.col("date").isin(*dates))
    if copies_on:
        reach = range(contract.tables.engagements.copies_within_days + 1)
        near = sorted({days_before(date, days) for date in copies_on for days in reach})
        valid = judged.filter(F.col("fault").isNull() & F.col("date").isin(*near))
        marked = _marked(_placed(valid, contract), contract, ties=("kinds",))
        copies = marked.filter(F.col("_copy") & F.col("date").isin(*copies_on)).select(*judged.columns)
        faulty = faulty.unionByName(copies.withColumn("fault", F.lit(DUPLICATE)))
    return quarantine_rows(faulty, key_hash=F.xxhash64("event_id"))
