"""`user_events`: every event once, all kinds and surfaces on one time line (OneSeq)."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from gem_pipeline.contracts import tables
from gem_pipeline.contracts.contract import DataContract
from spark.dimensions import event_attributes
from spark.expressions import attributes_as_of, column_type, hashed_id, keep_first, user_bucket, utc_time


def judged_engagements(engagements: DataFrame, contract: DataContract) -> DataFrame:
    """Rename the contract's columns to their roles and name what is wrong with each row.

    Returns:
        One row an input row: the columns of `user_events` but attributes, and `fault` (null: none).

    Raises:
        SchemaError: a column that the contract names is missing or has an unusable type.
    """
    ref, table = contract.tables.engagements, "engagements"
    for column in (
        ref.key,
        ref.surface,
        ref.source,
        ref.actions,
        contract.partition.column,
        *filter(None, [ref.value]),
    ):
        column_type(engagements, column, table)
    is_array = isinstance(column_type(engagements, ref.actions, table), T.ArrayType)
    event_ts = utc_time(engagements, ref.event_ts, table)
    value = F.col(ref.value).cast("float") if ref.value else F.lit(None).cast("float")
    rows = engagements.select(
        F.col(contract.partition.column).cast("string").alias("date"),
        F.col(ref.key).cast("string").alias("event_id"),
        hashed_id(engagements, ref.user, table).alias("user_id"),
        hashed_id(engagements, ref.ad, table).alias("ad_id"),
        F.col(ref.surface).cast("string").alias("surface"),
        F.col(ref.source).cast("string").alias("source"),
        (F.col(ref.actions) if is_array else F.array(ref.actions)).cast("array<string>").alias("kinds"),
        F.when(~F.isnan(value), value).alias("value"),
        event_ts.alias("event_ts"),
        (utc_time(engagements, ref.ingest_ts, table) if ref.ingest_ts else event_ts).alias("ingest_ts"),
    )
    return rows.withColumn("fault", _fault(contract))


def _fault(contract: DataContract) -> Column:
    known = F.array(*(F.lit(kind) for kind in contract.sequence.kinds))
    rules = [
        *((F.col(c).isNull(), f"null {c}") for c in ("event_id", "user_id", "ad_id", "event_ts", "ingest_ts", "kinds")),
        (~F.coalesce(F.col("surface").isin(*contract.surfaces), F.lit(False)), "unknown surface"),
        (~F.coalesce(F.col("source").isin(*contract.sequence.sources), F.lit(False)), "unknown source"),
        (F.size(F.array_except("kinds", known)) > 0, "unknown kind"),
    ]
    return F.coalesce(*(F.when(broken, F.lit(reason)) for broken, reason in rules))


def user_events(engagements: DataFrame, ads: DataFrame, contract: DataContract) -> DataFrame:
    """Derive the rows of `user_events` for every date partition in `engagements`.

    Within a partition an event id counts once: the copy that arrived first, equal ones by their hash.

    Args:
        engagements: bronze rows of one or more date partitions.
        ads: bronze ad dimension.
        contract: names columns, surfaces, sources, kinds and attributes.

    Returns:
        Rows with exactly the columns of the table's schema; rows with a fault are left out (they are
        `quarantined_engagements`).
    """
    schema = tables.user_events(contract)
    kept = judged_engagements(engagements, contract).filter("fault IS NULL").drop("fault")
    keyed = kept.withColumn("event_key", F.xxhash64("event_id"))  # a number sorts faster than the id
    once = keep_first(keyed, key=["event_key", "date"], order=["ingest_ts"])
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


def quarantined_engagements(engagements: DataFrame, contract: DataContract) -> DataFrame:
    """Rows that `user_events` left out for a fault: date, reason, and the row as JSON."""
    faulty = judged_engagements(engagements, contract).filter("fault IS NOT NULL")
    return faulty.select(
        F.coalesce("date", F.lit("")).alias("date"),
        F.col("fault").alias("reason"),
        F.to_json(F.struct(*(c for c in faulty.columns if c != "fault"))).alias("row"),
    )
