"""`examples`: one row an impression, its labels, its features as known then, and a pointer into the history."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from gem_pipeline.contracts import tables
from gem_pipeline.contracts.contract import DataContract, Objective
from spark.counter_columns import with_counters
from spark.dimensions import ad_attributes, feature_value, user_attributes
from spark.expressions import attributes_as_of, column_type, hashed_id, ranked_copies, typed, user_bucket, utc_time
from spark.judging import (
    DAY_US,
    STATES,
    anonymous_user,
    day_offset_us,
    first_fault,
    left_out,
    not_among,
    null_faults,
    unknown_faults,
    with_ad_state,
    with_user_state,
)
from spark.open_day import OpenDay

HOUR_US = 3_600_000_000


def judged_impressions(
    impressions: DataFrame, users: DataFrame, ads: DataFrame, contract: DataContract
) -> DataFrame:  # fmt: skip
    """Rename the contract's columns to their roles and name what is wrong with each row.

    An impression of an opted-out user gets a user of its own, whom nothing else knows: so it has no history, no
    user features and no counts of the user.

    Returns:
        One row an input row: keys, times, labels, features of origin `impressions`, and the columns that judging
        adds (`fault`: null for none).

    Raises:
        SchemaError: a column that the contract names is missing or has an unusable type.
    """
    ref, table = contract.tables.impressions, "impressions"
    column_type(impressions, ref.key, table)
    labels = {
        f"raw__{o.name}": typed(impressions, o.column, table, "label")
        for o in contract.objectives
        if o.column is not None
    }
    event_ts = utc_time(impressions, ref.event_ts, table)
    columns = {
        "date": F.col(typed(impressions, contract.partition.column, table, "day")).cast("string"),
        "impression_id": F.col(ref.key).cast("string"),
        "user_id": hashed_id(impressions, ref.user, table),
        "ad_id": hashed_id(impressions, ref.ad, table),
        "surface": F.col(typed(impressions, ref.surface, table, "string")),
        "impression_ts": event_ts,
        "ingest_ts": utc_time(impressions, ref.ingest_ts, table) if ref.ingest_ts else event_ts,
        **{name: F.col(column).cast("double") for name, column in labels.items()},
        **{f.name: feature_value(impressions, f, table) for f in contract.features if f.origin == "impressions"},
    }
    rows = impressions.select(*(column.alias(name) for name, column in columns.items()))
    judged = with_user_state(rows, users, contract, time="impression_ts")
    judged = with_ad_state(judged, ads, contract, time="impression_ts").withColumn("fault", _fault(contract))
    stranger = F.when(F.col("opted_out"), anonymous_user("impression_id")).otherwise(F.col("user_id"))
    return judged.withColumn("user_id", stranger)


def _fault(contract: DataContract) -> Column:
    from_its_day = day_offset_us("impression_ts")
    return first_fault([
        *null_faults(("impression_id", "user_id", "ad_id", "impression_ts", "ingest_ts")),
        not_among("surface", contract.surfaces, "unknown surface"),
        *((~F.coalesce(F.col(f"raw__{o.name}").isin(0.0, 1.0), F.lit(True)), f"label {o.name} not 0 or 1")
          for o in contract.column_objectives),
        *unknown_faults(),
        (F.col("ingest_ts") < F.col("impression_ts"), "ingested before it happened"),
        ((from_its_day < -DAY_US) | (from_its_day >= 2 * DAY_US), "happened more than a day off its day"),
    ])  # fmt: skip


def _label(objective: Objective) -> Column:
    """0 or 1; null where the surface does not optimise the objective."""
    label = F.col(f"raw__{objective.name}")
    return F.when(F.col("surface").isin(*objective.surfaces), label) if objective.surfaces else label


def context_of(column: str) -> Column:
    """Hour (0 to 23) or day of the week (1: Sunday) of the impression in UTC, whatever the session's zone."""
    us = F.unix_micros("impression_ts")
    of_day = F.pmod(us, F.lit(DAY_US))
    if column == "hour_of_day":
        return F.floor(of_day / HOUR_US)
    days = ((us - of_day) / DAY_US).cast("bigint")
    return F.pmod(days + 4, F.lit(7)) + 1  # 1970 began on a Thursday


def _shared_ids(contract: DataContract) -> dict[str, Column]:
    """Features that events carry as well take the event attribute's 64-bit id, so that both share embeddings."""
    attribute = {a.column: a.name for a in contract.sequence.attributes}
    shared = [f for f in contract.features if tables.is_event_attribute(contract, f)]
    return {f.name: F.col(f"attribute__{attribute[f.column]}") for f in shared}


def examples(
    impressions: DataFrame,
    users: DataFrame,
    ads: DataFrame,
    increments: DataFrame,
    contract: DataContract,
    *,
    open_day: OpenDay | None = None,
    hold: Callable[[DataFrame], DataFrame] | None = None,
) -> DataFrame:
    """Derive the rows of `examples` for every date partition in `impressions`.

    Args:
        impressions: bronze rows of one or more date partitions.
        users: bronze user dimension.
        ads: bronze ad dimension.
        increments: rows of `counter_increments`, at least the windows of the impressions' dates.
        contract: names columns, features, counters, objectives.
        open_day: events and openings of the dates; needed where a counter has lag `none`.
        hold: caches rows that are read several times, and whose caller lets them go; changes no value.

    Returns:
        Rows with exactly the columns of the table's schema; rows with a fault are left out (they are
        `quarantined_impressions`).
    """
    schema = tables.examples(contract)
    kept = judged_impressions(impressions, users, ads, contract).filter("fault IS NULL")
    ranked = ranked_copies(kept, key=["date", "impression_id"], order=["ingest_ts"], ignored=STATES)
    hidden = F.col("opted_out").cast("byte")  # the stranger's row, told apart from one of whom nothing is known
    once = ranked.filter("_rank = 1").withColumn("_hidden", hidden).drop("_rank", *STATES)
    has_validity = {"users": contract.tables.users.valid_from, "ads": contract.tables.ads.valid_from}
    rows = attributes_as_of(
        once, user_attributes(users, contract), key="user_id", time="impression_ts",
        has_validity=has_validity["users"] is not None,
    )  # fmt: skip
    rows = attributes_as_of(
        rows, ad_attributes(ads, contract), key="ad_id", time="impression_ts",
        has_validity=has_validity["ads"] is not None,
    )  # fmt: skip
    rows = with_counters(hold(rows) if hold else rows, increments, contract, open_day=open_day)
    derived = {
        "bucket": user_bucket(F.col("user_id"), contract),
        **{f.name: context_of(f.column) for f in contract.features if f.origin == "context"},
        **_shared_ids(contract),
        **{tables.label_column(o.name): _label(o) for o in contract.column_objectives},
        tables.OPTED_OUT: F.col("_hidden"),
    }
    allowed = {f.name: F.col("surface").isin(*f.surfaces) for f in contract.features if f.surfaces}
    values = {c.name: derived.get(c.name, F.col(c.name)).cast(schema.spark_type(c.name)) for c in schema.columns}
    values |= {name: F.when(where, values[name]) for name, where in allowed.items() if name in values}
    return rows.select(*(value.alias(name) for name, value in values.items()))


def quarantined_impressions(judged: DataFrame, *, copies_on: Sequence[str]) -> DataFrame:
    """Rows of `judged_impressions` that `examples` left out; see `left_out`."""
    return left_out(
        judged, key="impression_id", order=["ingest_ts"], key_hash=F.xxhash64("impression_id"), copies_on=copies_on
    )
