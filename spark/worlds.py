"""A simulated world by Spark: organic events and impressions from their closed forms, bronze rows from these.

Rows come from independent ranges of users and days, so nothing depends on how many tasks there are. The
wide table `served` holds the impressions with their truth; what the platform logs is derived from it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from gem_pipeline.datasets.worlds.log import WorldLog
from gem_pipeline.datasets.worlds.population import day_index
from gem_pipeline.datasets.worlds.tables import ENGAGEMENTS, SERVED, logged_impressions, organic_events
from gem_pipeline.datasets.worlds.world import Scale, World

EVENTS_A_RANGE = 40_000  # events of a range of users and a day; bounds the memory of a task
IMPRESSION_COLUMNS = (
    "impression_id", "user_id", "content_id", "surface", "event_ts", "position", "bid", "propensity", "policy",
    "is_click", "date",
)  # fmt: skip

Maker = Callable[[World, Scale, int, int, int, str], pa.Table]


def _rows(
    spark: SparkSession, log: WorldLog, dates: tuple[str, ...], make: Maker, schema: pa.Schema, tasks: int
) -> DataFrame:
    world, scale = log.world, log.scale
    width = max(1, int(EVENTS_A_RANGE / scale.events_a_day))
    ranges = [
        (day_index(scale, date), date, first, min(first + width, scale.users))
        for date in sorted(dates)
        for first in range(0, scale.users, width)
    ]
    frame = spark.createDataFrame(ranges, "day INT, date STRING, first BIGINT, stop BIGINT")

    def generate(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for row in batch.to_pylist():
                made = make(world, scale, row["first"], row["stop"], row["day"], row["date"])
                yield from made.to_batches(max_chunksize=EVENTS_A_RANGE)

    spread = frame.repartitionByRange(tasks, "date", "first")
    return spread.mapInArrow(generate, from_arrow_schema(schema))


def organic(spark: SparkSession, log: WorldLog, dates: tuple[str, ...], *, tasks: int) -> DataFrame:
    """Organic events of some days, columns of `tables.ENGAGEMENTS`."""
    return _rows(spark, log, dates, organic_events, ENGAGEMENTS, tasks)


def served(spark: SparkSession, log: WorldLog, dates: tuple[str, ...], *, tasks: int) -> DataFrame:
    """Impressions that the logged policy made on some days, with their truth, columns of `tables.SERVED`."""
    return _rows(spark, log, tuple(d for d in dates if log.has_impressions(d)), logged_impressions, SERVED, tasks)


def impressions(truth: DataFrame) -> DataFrame:
    """What the platform logs of impressions: no truth, no outcome but the click."""
    return truth.select(*IMPRESSION_COLUMNS)


def ad_events(truth: DataFrame) -> DataFrame:
    """Impressions as events on the user's time line, when their outcome was known."""
    kinds = F.when(F.col("is_click") == 1, F.array(F.lit("ad_view"), F.lit("click"))).otherwise(
        F.array(F.lit("ad_view"))
    )
    return _engagements(
        truth, event_id=F.col("impression_id"), source="ad", actions=kinds, dwell_s=F.col("dwell_s"),
        event_ts=F.col("known_ts"), ingest_ts=F.col("known_ingest_ts"), date=F.col("date"),
    )  # fmt: skip


def conversion_events(truth: DataFrame, dates: tuple[str, ...]) -> DataFrame:
    """Conversions as events, in the partition of the day on which they arrived; ids are negative."""
    return _engagements(
        _arrived(truth, dates), event_id=-F.col("impression_id"), source="ad",
        actions=F.array("conversion_type"), dwell_s=F.lit(None), event_ts=F.col("converted_ts"),
        ingest_ts=F.col("conversion_ingest_ts"), date=F.col("arrival_date"),
    )  # fmt: skip


def conversions(truth: DataFrame, dates: tuple[str, ...]) -> DataFrame:
    """Conversions that arrived on some days: who, which ad, what, when, worth how much; not for which impression."""
    return _arrived(truth, dates).select(
        F.col("impression_id").alias("conversion_id"), "user_id", "content_id", "conversion_type", "value",
        F.col("converted_ts").alias("event_ts"), F.col("conversion_ingest_ts").alias("ingest_ts"),
        F.col("arrival_date").alias("date"),
    )  # fmt: skip


def _arrived(truth: DataFrame, dates: tuple[str, ...]) -> DataFrame:
    day = F.date_format("conversion_ingest_ts", "yyyy-MM-dd")
    return truth.withColumn("arrival_date", day).filter(F.col("arrival_date").isin(*dates))


def _engagements(truth: DataFrame, **columns: Column | str) -> DataFrame:
    given = {name: F.lit(value) if isinstance(value, str) else value for name, value in columns.items()}
    given |= {name: F.col(name) for name in ("user_id", "content_id", "surface")}
    given["scroll_depth"] = F.lit(None)
    types = {field.name: field.dataType for field in from_arrow_schema(ENGAGEMENTS)}
    return truth.select(*(given[name].cast(kind).alias(name) for name, kind in types.items()))
