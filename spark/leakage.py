"""Leaked events, counted by another formulation than the one that derived the tables."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from gem_pipeline.contracts import tables
from gem_pipeline.contracts.contract import Counter, DataContract
from spark.dimensions import event_attributes
from spark.expressions import attributes_as_of, visible_ts

SAMPLE_A_DATE = 8  # impressions judged in each date partition


def seen_by_the_two_clocks(contract: DataContract) -> Column:
    """The contract's rule as it is written: it happened before, and it had arrived (with the allowance)."""
    arrived = F.unix_micros("ingest_ts") <= F.unix_micros("impression_ts") + contract.visibility.allowance_s * 1_000_000
    return (F.col("event_ts") < F.col("impression_ts")) & arrived


def leaked_events(examples: DataFrame, events: DataFrame, ads: DataFrame, contract: DataContract) -> DataFrame:
    """Count leaked events of a sample of impressions in each date partition.

    A leak is an event in a history (by its visible time) that one of the two clocks forbids, or a counter
    larger than the number of events that both clocks allowed at the impression.

    Args:
        examples: derived rows.
        events: rows of `user_events`: every partition that the examples' histories and counters may use.
        ads: bronze ad dimension.
        contract: visibility, counters.

    Returns:
        date, sampled (impressions), leaked (events).
    """
    by_hash = Window.partitionBy("date").orderBy(F.xxhash64("impression_id"), "impression_id")
    ranked = examples.withColumn("_rank", F.row_number().over(by_hash)).filter(F.col("_rank") <= SAMPLE_A_DATE)
    sample = attributes_as_of(
        ranked.drop("_rank"), event_attributes(ads, contract), key="ad_id", time="impression_ts",
        has_validity=contract.tables.ads.valid_from is not None,
    )  # fmt: skip
    parts = [_leaks_of_histories(sample, events, contract)]
    parts += [_leaks_of_counter(sample, events, counter, contract) for counter in contract.counters.groups]
    leaks = reduce(DataFrame.unionAll, parts).groupBy("date").agg(F.sum("leaked").alias("leaked"))
    return sample.groupBy("date").agg(F.count("*").alias("sampled")).join(leaks, on="date", how="left").na.fill(0)


def _leaks_of_histories(sample: DataFrame, events: DataFrame, contract: DataContract) -> DataFrame:
    pointers = sample.select(F.col("date").alias("_date"), "user_id", "impression_ts")
    joined = events.join(F.broadcast(pointers), on="user_id")
    wrong = (visible_ts(contract) <= F.col("impression_ts")) & ~seen_by_the_two_clocks(contract)
    return joined.groupBy(F.col("_date").alias("date")).agg(F.count_if(wrong).alias("leaked"))


def _leaks_of_counter(sample: DataFrame, events: DataFrame, counter: Counter, contract: DataContract) -> DataFrame:
    named = {"user": ("user_id", "user_id"), "ad": ("ad_id", "ad_id"), "surface": ("surface", "surface")}
    named |= {a.name: (f"attribute__{a.name}", a.name) for a in contract.sequence.attributes}
    keys = [named[key] for key in counter.keys]
    claimed = [tables.count_column(counter.name, kind) for kind in (None, *counter.kinds)]
    pointers = sample.select(
        F.col("date").alias("_date"), "impression_id", "impression_ts", *claimed,
        *(F.col(ours).alias(f"_key_{i}") for i, (ours, _) in enumerate(keys)),
    )  # fmt: skip
    same = [F.col(f"_key_{i}") == F.col(theirs) for i, (_, theirs) in enumerate(keys)]
    sees = reduce(lambda one, other: one & other, same, seen_by_the_two_clocks(contract))
    counted = events.filter(F.col("source") == counter.source).withColumn("_event", F.lit(1))
    bits = [1 << contract.sequence.kinds.index(kind) for kind in counter.kinds]
    did = [F.col("_event") == 1, *(F.col("actions").bitwiseAND(F.lit(bit)) != 0 for bit in bits)]
    allowed = (
        counted.join(F.broadcast(pointers), on=sees, how="right")
        .groupBy("_date", "impression_id")
        .agg(*(F.greatest(F.first(c) - F.count_if(d), F.lit(0)).alias(c) for c, d in zip(claimed, did, strict=True)))
    )
    excess = reduce(lambda one, other: one + other, [F.sum(column) for column in claimed])
    return allowed.groupBy(F.col("_date").alias("date")).agg(excess.alias("leaked"))
