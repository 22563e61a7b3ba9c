"""The impressions whose counters and histories are recounted, to show that no event leaked."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from gem_pipeline.contracts.contract import DataContract
from spark.dimensions import event_attributes
from spark.expressions import attributes_as_of


def recount_sample(examples: DataFrame, ads: DataFrame, contract: DataContract, *, num_rows: int) -> DataFrame:
    """Choose impressions of each date by the hash of their id, and add the attributes of their ads.

    Args:
        examples: derived rows.
        ads: bronze ad dimension.
        contract: names the attributes.
        num_rows: impressions of each date.

    Returns:
        The columns of `examples`, and `attribute__<name>` for each sequence attribute.
    """
    by_hash = Window.partitionBy("date").orderBy(F.xxhash64("impression_id"), "impression_id")
    ranked = examples.withColumn("_rank", F.row_number().over(by_hash)).filter(F.col("_rank") <= num_rows)
    return attributes_as_of(
        ranked.drop("_rank"),
        event_attributes(ads, contract),
        key="ad_id",
        time="impression_ts",
        has_validity=contract.tables.ads.valid_from is not None,
    )
