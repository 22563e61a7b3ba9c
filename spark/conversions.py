"""`attributed_conversions`: each conversion credited to the last touch before it, within the contract's windows.

A conversion from arrival partition a may be credited to impressions of [a - reach, a], where reach is the longest
window and the delay allowance. So a partition p of the table is a pure function of the conversions and impressions
of [p - reach, p + reach], in whatever order they were derived.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from gem_pipeline.contracts import tables
from gem_pipeline.contracts.contract import DataContract
from gem_pipeline.contracts.conversions import MATCH_AD, Attribution, ConversionsTable
from spark.dimensions import event_attributes
from spark.expressions import attributes_as_of, column_type, hashed_id, utc_time

DAY_S = 86_400
CLICK, VIEW = "click", "view"


def judged_conversions(conversions: DataFrame, contract: DataContract) -> DataFrame:
    """Rename the contract's columns to their roles and name what is wrong with each row.

    Returns:
        One row an input row: conversion_key, user_id, ad_id, type, times, value, `arrived`, `fault` (null: none).

    Raises:
        SchemaError: a column that the contract names is missing or has an unusable type.
    """
    ref, table = _table(contract), "conversions"
    for column in (ref.key, ref.type, contract.partition.column, *filter(None, [ref.value])):
        column_type(conversions, column, table)
    happened = utc_time(conversions, ref.event_ts, table)
    value = F.col(ref.value).cast("float") if ref.value else F.lit(None).cast("float")
    rows = conversions.select(
        F.col(contract.partition.column).cast("string").alias("arrived"),
        F.col(ref.key).cast("string").alias("conversion_key"),
        hashed_id(conversions, ref.user, table).alias("user_id"),
        hashed_id(conversions, ref.ad, table).alias("ad_id"),
        F.col(ref.type).cast("string").alias("type"),
        happened.alias("conversion_ts"),
        (utc_time(conversions, ref.ingest_ts, table) if ref.ingest_ts else happened).alias("ingest_ts"),
        F.when(~F.isnan(value), value).alias("value"),
    )
    return rows.withColumn("fault", _fault(contract))


def _table(contract: DataContract) -> ConversionsTable:
    assert contract.tables.conversions is not None, "the contract has no conversions"
    return contract.tables.conversions


def _attribution(contract: DataContract) -> Attribution:
    assert contract.attribution is not None, "the contract has no conversions"
    return contract.attribution


def _fault(contract: DataContract) -> Column:
    known = sorted({o.conversion for o in contract.conversion_objectives if o.conversion is not None})
    allowed = F.make_dt_interval(days=F.lit(contract.visibility.max_delay_days))
    required = ("conversion_key", "user_id", "ad_id", "conversion_ts", "ingest_ts")
    rules = [
        *((F.col(column).isNull(), f"null {column}") for column in required),
        (~F.coalesce(F.col("type").isin(*known), F.lit(False)), "unknown type"),
        (F.col("ingest_ts") < F.col("conversion_ts"), "ingested before it happened"),
        (F.col("ingest_ts") > F.col("conversion_ts") + allowed, "arrived too late"),
    ]
    return F.coalesce(*(F.when(broken, F.lit(reason)) for broken, reason in rules))


def _once(valid: DataFrame, contract: DataContract) -> DataFrame:
    """Leave out a key that has arrived within `reach` days before, or earlier on the same day."""
    order = Window.partitionBy("conversion_key").orderBy("arrived", "ingest_ts", F.xxhash64(*sorted(valid.columns)))
    before = F.lag("arrived").over(order)
    again = F.datediff(F.col("arrived").cast("date"), before.cast("date")) <= contract.conversion_reach_days
    marked = valid.withColumn("_again", F.coalesce(again, F.lit(False)))
    return marked.filter(~F.col("_again")).drop("_again")


def _touches(impressions: DataFrame, ads: DataFrame, contract: DataContract) -> DataFrame:
    """Impressions as touches: date, bucket, impression_id, user_id, _match, impression_ts, clicked."""
    clicked = F.col(tables.label_column(_attribution(contract).click_objective)) == 1
    rows = impressions.select(
        "date", "bucket", "impression_id", "user_id", "ad_id", "impression_ts",
        F.coalesce(clicked, F.lit(False)).alias("clicked"),
    )  # fmt: skip
    return _matched(rows, ads, contract, time="impression_ts")


def _matched(rows: DataFrame, ads: DataFrame, contract: DataContract, *, time: str) -> DataFrame:
    """Replace ad_id by `_match`: the ad itself, or its attribute in force at `time`."""
    match = _attribution(contract).match
    if match == MATCH_AD:
        return rows.withColumnRenamed("ad_id", "_match")
    known = event_attributes(ads, contract)
    validity = ["valid_from"] if contract.tables.ads.valid_from is not None else []
    own = known.select("ad_id", F.col(f"attribute__{match}").alias("_match"), *validity)
    return attributes_as_of(rows, own, key="ad_id", time=time, has_validity=bool(validity)).drop("ad_id")


def credited(conversions: DataFrame, impressions: DataFrame, ads: DataFrame, contract: DataContract) -> DataFrame:
    """Credit every valid conversion, once for each objective of its type, to the last touch before it.

    The latest clicked impression of the same user and match with `impression_ts < conversion_ts <= impression_ts +
    click window`; without one the latest impression within the view window. Of equal times the greater id.

    Args:
        conversions: bronze rows, at least `reach` days of arrivals before the ones that matter.
        impressions: rows of `examples`, at least `reach` days before these arrivals.
        ads: bronze ad dimension; read where `attribution.match` is an attribute.
        contract: windows, attribution and columns.

    Returns:
        Rows with exactly the columns of `attributed_conversions`, of every date that gained one.
    """
    schema = tables.attributed_conversions()
    valid = _once(judged_conversions(conversions, contract).filter("fault IS NULL").drop("fault"), contract)
    touches = _touches(impressions, ads, contract).withColumnRenamed("user_id", "_user")
    wanted = _matched(valid, ads, contract, time="conversion_ts").withColumnRenamed("_match", "_wanted")
    days = F.datediff(F.col("arrived").cast("date"), F.col("date").cast("date"))
    longest = max(o.window_days for o in contract.conversion_objectives)
    pairs = wanted.join(
        touches,
        (F.col("user_id") == F.col("_user"))
        & (F.col("_wanted") == F.col("_match"))
        & (F.col("impression_ts") < F.col("conversion_ts"))
        & (F.col("conversion_ts") <= F.col("impression_ts") + F.make_dt_interval(days=F.lit(longest)))
        & days.between(0, contract.conversion_reach_days),
    )
    touched = pairs.select("*", F.inline(_touched(contract)))
    touch = F.struct("clicked_in_time", "impression_ts", "impression_id", "date", "bucket")
    last = touched.groupBy("conversion_key", "arrived", "objective").agg(
        F.max(touch).alias("touch"), *(F.first(c).alias(c) for c in ("conversion_ts", "ingest_ts", "value"))
    )
    how = F.when(F.col("touch.clicked_in_time"), F.lit(CLICK)).otherwise(F.lit(VIEW))
    found = last.select("*", "touch.date", "touch.bucket", "touch.impression_id", how.alias("attribution"))
    return found.select(*(F.col(c.name).cast(schema.spark_type(c.name)).alias(c.name) for c in schema.columns))


def _touched(contract: DataContract) -> Column:
    """The objectives that a pair of a conversion and an earlier impression could serve, as an array of structs."""
    # Whole microseconds: a window is so many times 24 hours, whatever the calendar says.
    lag = F.unix_micros("conversion_ts") - F.unix_micros("impression_ts")
    structs = []
    for o in contract.conversion_objectives:
        by_click = F.col("clicked") & (lag <= (o.click_window_days or 0) * DAY_S * 1_000_000)
        by_view = lag <= o.view_window_days * DAY_S * 1_000_000
        pair = F.struct(F.lit(o.name).alias("objective"), by_click.alias("clicked_in_time"))
        structs.append(F.when((F.col("type") == o.conversion) & (by_click | by_view), pair))
    return F.filter(F.array(*structs), lambda pair: pair.isNotNull())


def attributed_conversions(
    conversions: DataFrame, impressions: DataFrame, ads: DataFrame, contract: DataContract, dates: tuple[str, ...]
) -> DataFrame:
    """Rows of `attributed_conversions` for some dates of impressions; see `credited` for the other arguments."""
    return credited(conversions, impressions, ads, contract).filter(F.col("date").isin(*dates))


def quarantined_conversions(
    conversions: DataFrame, impressions: DataFrame, ads: DataFrame, contract: DataContract, dates: tuple[str, ...]
) -> DataFrame:
    """Conversions that arrived on `dates` and have a fault, or that no objective credits: date, reason, row as JSON."""
    judged = judged_conversions(conversions, contract)
    found = credited(conversions, impressions, ads, contract).select("conversion_key", "arrived").distinct()
    valid = _once(judged.filter("fault IS NULL").drop("fault"), contract)
    missed = valid.join(found, on=["conversion_key", "arrived"], how="left_anti").withColumn(
        "fault", F.lit("not attributed")
    )
    left_out = judged.filter("fault IS NOT NULL").unionByName(missed).filter(F.col("arrived").isin(*dates))
    row = F.to_json(F.struct(*(column for column in judged.columns if column != "fault")))
    return left_out.select(F.col("arrived").alias("date"), F.col("fault").alias("reason"), row.alias("row"))
