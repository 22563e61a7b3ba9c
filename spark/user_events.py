"""`user_events`: every event once, all kinds and surfaces on one time line (OneSeq)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from gem_pipeline.contracts import tables
from gem_pipeline.contracts.contract import DataContract
from spark.dimensions import event_attributes
from spark.expressions import attributes_as_of, column_type, hashed_id, keep_first, typed, user_bucket, utc_time
from spark.judging import (
    DAY_US,
    OPTED_OUT,
    STATES,
    day_offset_us,
    first_fault,
    left_out,
    not_among,
    null_faults,
    unknown_faults,
    with_ad_state,
    with_user_state,
)


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
    known = F.array(*(F.lit(kind) for kind in contract.sequence.kinds))
    return first_fault([
        (F.col("opted_out"), OPTED_OUT),
        *null_faults(("event_id", "user_id", "ad_id", "event_ts", "ingest_ts", "kinds")),
        not_among("surface", contract.surfaces, "unknown surface"),
        not_among("source", contract.sequence.sources, "unknown source"),
        (F.size(F.array_except("kinds", known)) > 0, "unknown kind"),
        *unknown_faults(),
        (F.col("ingest_ts") < F.col("event_ts"), "ingested before it happened"),
        (day_offset_us("event_ts") > 2 * DAY_US, "happened more than a day after its day"),
    ])  # fmt: skip


def user_events(engagements: DataFrame, users: DataFrame, ads: DataFrame, contract: DataContract) -> DataFrame:
    """Derive the rows of `user_events` for every date partition in `engagements`.

    Within a partition an event id counts once: the copy that arrived first, equal ones by their hash.

    Args:
        engagements: bronze rows of one or more date partitions.
        users: bronze user dimension; read where the contract judges users.
        ads: bronze ad dimension.
        contract: names columns, surfaces, sources, kinds and attributes.

    Returns:
        Rows with exactly the columns of the table's schema; rows with a fault and later copies are left out
        (they are `quarantined_engagements`).
    """
    schema = tables.user_events(contract)
    kept = judged_engagements(engagements, users, ads, contract).filter("fault IS NULL").drop(*STATES)
    once = keep_first(kept, key=["event_key", "date"], order=["ingest_ts"])
    bits = [
        F.when(F.array_contains("kinds", kind), F.lit(1 << position)).otherwise(F.lit(0))
        for position, kind in enumerate(contract.sequence.kinds)
    ]
    events = once.withColumn("bucket", user_bucket(F.col("user_id"), contract)).withColumn(
        "actions", reduce(lambda one, other: one.bitwiseOR(other), bits)
    )
    with_attributes = attributes_as_of(
        events,
        event_attributes(ads, contract),
        key="ad_id",
        time="event_ts",
        has_validity=contract.tables.ads.valid_from is not None,
    )
    names = {a.name: f"attribute__{a.name}" for a in contract.sequence.attributes}
    return with_attributes.select(
        *(F.col(names.get(c.name, c.name)).cast(schema.spark_type(c.name)).alias(c.name) for c in schema.columns)
    )


def quarantined_engagements(judged: DataFrame, *, copies_on: Sequence[str]) -> DataFrame:
    """Rows of `judged_engagements` that `user_events` left out; see `left_out`."""
    return left_out(judged, key="event_key", order=["ingest_ts"], key_hash=F.xxhash64("event_id"), copies_on=copies_on)
