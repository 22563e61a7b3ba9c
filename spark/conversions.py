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
from spark.expressions import attributes_as_of, column_type, hashed_id, typed, utc_time
from spark.judging import (
    DAY_US,
    DUPLICATE,
    NOT_ATTRIBUTED,
    OPTED_OUT,
    STATES,
    first_fault,
    not_among,
    null_faults,
    quarantine_rows,
    with_user_state,
)

CLICK, VIEW = "click", "view"


def judged_conversions(conversions: DataFrame, users: DataFrame, contract: DataContract) -> DataFrame:
    """Rename the contract's columns to their roles and name what is wrong with each row.

    Returns:
        One row an input row: `date` (on which it arrived), conversion_key, user_id, ad_id, type, times, value, and
        the columns that judging adds (`fault`: null for none).

    Raises:
        SchemaError: a column that the contract names is missing or has an unusable type.
    """
    ref, table = _table(contract), "conversions"
    column_type(conversions, ref.key, table)
    happened = utc_time(conversions, ref.event_ts, table)
    value = F.col(typed(conversions, ref.value, table, "number")).cast("float") if ref.value else None
    rows = conversions.select(
        F.col(typed(conversions, contract.partition.column, table, "day")).cast("string").alias("date"),
        F.col(ref.key).cast("string").alias("conversion_key"),
        hashed_id(conversions, ref.user, table).alias("user_id"),
        hashed_id(conversions, ref.ad, table).alias("ad_id"),
        F.col(typed(conversions, ref.type, table, "string")).alias("type"),
        happened.alias("conversion_ts"),
        (utc_time(conversions, ref.ingest_ts, table) if ref.ingest_ts else happened).alias("ingest_ts"),
        (F.lit(None).cast("float") if value is None else F.when(~F.isnan(value), value)).alias("value"),
    )
    judged = with_user_state(rows, users, contract, time="conversion_ts").withColumn("known_ad", F.lit(True))
    return judged.withColumn("fault", _fault(contract))


def _table(contract: DataContract) -> ConversionsTable:
    assert contract.tables.conversions is not None, "the contract has no conversions"
    return contract.tables.conversions


def _attribution(contract: DataContract) -> Attribution:
    assert contract.attribution is not None, "the contract has no conversions"
    return contract.attribution


def _fault(contract: DataContract) -> Column:
    known = sorted({o.conversion for o in contract.conversion_objectives if o.conversion is not None})
    delay = F.unix_micros("ingest_ts") - F.unix_micros("conversion_ts")
    return first_fault([
        (F.col("opted_out"), OPTED_OUT),
        *null_faults(("conversion_key", "user_id", "ad_id", "conversion_ts", "ingest_ts")),
        not_among("type", known, "unknown type"),
        (delay < 0, "ingested before it happened"),
        (delay > contract.conversion_delay_days * DAY_US, "arrived too late"),
    ])  # fmt: skip


def _once_marked(judged: DataFrame, contract: DataContract) -> DataFrame:
    """Valid rows only, `fault` set on a key that has arrived within `reach` days before, or earlier on the same day."""
    valid = judged.filter("fault IS NULL")
    ties = F.xxhash64(*sorted(set(valid.columns) - set(STATES)))
    order = Window.partitionBy("conversion_key").orderBy("date", "ingest_ts", ties)
    before = F.lag("date").over(order)
    again = F.datediff(F.col("date").cast("date"), before.cast("date")) <= contract.conversion_reach_days
    return valid.withColumn("fault", F.when(again, F.lit(DUPLICATE)))


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


def credited(
    conversions: DataFrame, impressions: DataFrame, users: DataFrame, ads: DataFrame, contract: DataContract
) -> DataFrame:  # fmt: skip
    """Credit every valid conversion, once for each objective of its type, to the last touch before it.

    The latest clicked impression of the same user and match with `impression_ts < conversion_ts <= impression_ts +
    click window`; without one the latest impression within the view window. Of equal times the greater id.

    Args:
        conversions: bronze rows, at least `reach` days of arrivals before the ones that matter.
        impressions: rows of `examples`, at least `reach` days before these arrivals.
        users: bronze user dimension; read where users may opt out.
        ads: bronze ad dimension; read where `attribution.match` is an attribute.
        contract: windows, attribution and columns.

    Returns:
        Rows with exactly the columns of `attributed_conversions`, of every date that gained one.
    """
    schema = tables.attributed_conversions()
    once = _once_marked(judged_conversions(conversions, users, contract), contract).filter("fault IS NULL")
    valid = once.drop(*STATES).withColumnRenamed("date", "arrived")
    touches = _touches(impressions, ads, contract).withColumnRenamed("user_id", "_user")
    wanted = _matched(valid, ads, contract, time="conversion_ts").withColumnRenamed("_match", "_wanted")
    days = F.datediff(F.col("arrived").cast("date"), F.col("date").cast("date"))
    longest = max(o.window_days for o in contract.conversion_objectives)
    pairs = wanted.join(
        touches,
        (F.col("user_id") == F.col("_user"))
        & (F.col("_wanted") == F.col("_match"))
        & (F.col("impression_ts") < F.col("conversion_ts"))
        & (F.unix_micros("conversion_ts") - F.unix_micros("impression_ts") <= longest * DAY_US)
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
        by_click = F.col("clicked") & (lag <= (o.click_window_days or 0) * DAY_US)
        by_view = lag <= o.view_window_days * DAY_US
        pair = F.struct(F.lit(o.name).alias("objective"), by_click.alias("clicked_in_time"))
        structs.append(F.when((F.col("type") == o.conversion) & (by_click | by_view), pair))
    return F.filter(F.array(*structs), lambda pair: pair.isNotNull())


def attributed_conversions(
    conversions: DataFrame, impressions: DataFrame, users: DataFrame, ads: DataFrame, contract: DataContract,
    dates: tuple[str, ...],
) -> DataFrame:  # fmt: skip
    """Rows of `attributed_conversions` for some dates of impressions; see `credited` for the other arguments."""
    return credited(conversions, impressions, users, ads, contract).filter(F.col("date").isin(*dates))


def settled_conversions(
    conversions: DataFrame, impressions: DataFrame, users: DataFrame, ads: DataFrame, contract: DataContract,
    dates: tuple[str, ...],
) -> DataFrame:  # fmt: skip
    """`judged_conversions` of those that arrived on `dates`; `fault` names copies and those without credit, too."""
    judged = judged_conversions(conversions, users, contract)
    found = credited(conversions, impressions, users, ads, contract).select(
        "conversion_key", F.col("arrived").alias("date"), F.lit(True).alias("_found")
    )
    valid = _once_marked(judged, contract).join(found.distinct(), on=["conversion_key", "date"], how="left")
    missed = F.when(F.col("_found").isNull(), F.lit(NOT_ATTRIBUTED))
    settled = valid.withColumn("fault", F.coalesce("fault", missed)).drop("_found")
    return judged.filter("fault IS NOT NULL").unionByName(settled).filter(F.col("date").isin(*dates))


def quarantined_conversions(settled: DataFrame) -> DataFrame:
    """Rows of `settled_conversions` that no objective counts; see `quarantine_rows`."""
    return quarantine_rows(settled.filter("fault IS NOT NULL"), key_hash=F.xxhash64("conversion_key"))
