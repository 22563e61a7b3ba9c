"""`examples`: one row an impression, its labels, its features as known then, and a pointer into the history."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from gem_pipeline.contracts import tables
from gem_pipeline.contracts.contract import DataContract, Objective
from spark.counters import with_counters
from spark.dimensions import ad_attributes, feature_value, user_attributes
from spark.expressions import attributes_as_of, column_type, hashed_id, keep_first, user_bucket, utc_time


def judged_impressions(impressions: DataFrame, contract: DataContract) -> DataFrame:
    """Rename the contract's columns to their roles and name what is wrong with each row.

    Returns:
        One row an input row: keys, times, labels, features of origin `impressions`, `fault` (null: none).

    Raises:
        SchemaError: a column that the contract names is missing or has an unusable type.
    """
    ref, table = contract.tables.impressions, "impressions"
    labels = {f"raw__{o.name}": o.column for o in contract.objectives if o.column is not None}
    for column in (ref.key, ref.surface, contract.partition.column, *labels.values()):
        column_type(impressions, column, table)
    event_ts = utc_time(impressions, ref.event_ts, table)
    columns = {
        "date": F.col(contract.partition.column).cast("string"),
        "impression_id": F.col(ref.key).cast("string"),
        "user_id": hashed_id(impressions, ref.user, table),
        "ad_id": hashed_id(impressions, ref.ad, table),
        "surface": F.col(ref.surface).cast("string"),
        "impression_ts": event_ts,
        "ingest_ts": utc_time(impressions, ref.ingest_ts, table) if ref.ingest_ts else event_ts,
        **{name: F.col(column).cast("double") for name, column in labels.items()},
        **{f.name: feature_value(impressions, f, table) for f in contract.features if f.origin == "impressions"},
    }
    rows = impressions.select(*(column.alias(name) for name, column in columns.items()))
    return rows.withColumn("fault", _fault(contract))


def _fault(contract: DataContract) -> Column:
    required = ("impression_id", "user_id", "ad_id", "impression_ts", "ingest_ts")
    rules = [
        *((F.col(column).isNull(), f"null {column}") for column in required),
        (~F.coalesce(F.col("surface").isin(*contract.surfaces), F.lit(False)), "unknown surface"),
        *((~F.coalesce(F.col(f"raw__{o.name}").isin(0.0, 1.0), F.lit(True)), f"label {o.name} not 0 or 1")
          for o in contract.column_objectives),
    ]  # fmt: skip
    return F.coalesce(*(F.when(broken, F.lit(reason)) for broken, reason in rules))


def _label(objective: Objective) -> Column:
    """0 or 1; null where the surface does not optimise the objective."""
    label = F.col(f"raw__{objective.name}")
    return F.when(F.col("surface").isin(*objective.surfaces), label) if objective.surfaces else label


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
    broadcast_counters: bool = True,
) -> DataFrame:
    """Derive the rows of `examples` for every date partition in `impressions`.

    Args:
        impressions: bronze rows of one or more date partitions.
        users: bronze user dimension.
        ads: bronze ad dimension.
        increments: rows of `counter_increments`, at least the windows of the impressions' dates.
        contract: names columns, features, counters, objectives.
        broadcast_counters: whether the counts of all impressions fit in memory; changes no value.

    Returns:
        Rows with exactly the columns of the table's schema; rows with a fault are left out (they are
        `quarantined_impressions`).
    """
    schema = tables.examples(contract)
    kept = judged_impressions(impressions, contract).filter("fault IS NULL").drop("fault")
    once = keep_first(kept, key=["date", "impression_id"], order=["ingest_ts"])
    has_validity = {"users": contract.tables.users.valid_from, "ads": contract.tables.ads.valid_from}
    rows = attributes_as_of(
        once, user_attributes(users, contract), key="user_id", time="impression_ts",
        has_validity=has_validity["users"] is not None,
    )  # fmt: skip
    rows = attributes_as_of(
        rows, ad_attributes(ads, contract), key="ad_id", time="impression_ts",
        has_validity=has_validity["ads"] is not None,
    )  # fmt: skip
    rows = with_counters(rows, increments, contract, broadcast=broadcast_counters)
    context = {"hour_of_day": F.hour("impression_ts"), "day_of_week": F.dayofweek("impression_ts")}
    derived = {
        "bucket": user_bucket(F.col("user_id"), contract),
        **{f.name: context[f.column] for f in contract.features if f.origin == "context"},
        **_shared_ids(contract),
        **{tables.label_column(o.name): _label(o) for o in contract.column_objectives},
    }
    return rows.select(
        *(derived.get(c.name, F.col(c.name)).cast(schema.spark_type(c.name)).alias(c.name) for c in schema.columns)
    )


def quarantined_impressions(impressions: DataFrame, contract: DataContract) -> DataFrame:
    """Rows that `examples` left out for a fault: date, reason, and the row as JSON."""
    faulty = judged_impressions(impressions, contract).filter("fault IS NOT NULL")
    return faulty.select(
        F.coalesce("date", F.lit("")).alias("date"),
        F.col("fault").alias("reason"),
        F.to_json(F.struct(*(c for c in faulty.columns if c != "fault"))).alias("row"),
    )
