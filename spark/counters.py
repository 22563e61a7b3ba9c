"""`counter_increments`: what became known since the previous day opened; and their sums, per impression.

Ours: counts are day-lagged. A day opens with its first impression, and an event is counted by the first
day after its own partition at whose opening it was visible, so each event is counted exactly once and
no impression sees a count that its platform could not have had.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from gem_pipeline.contracts import tables
from gem_pipeline.contracts.contract import Counter, DataContract
from spark.expressions import visible_ts


@dataclass(frozen=True, kw_only=True, slots=True)
class OpenedDay:
    """A day that has impressions, and the one before it.

    Attributes:
        date: the date partition.
        opens_us: time of its first impression, microseconds since 1970 (UTC).
        previous: the newest earlier date with impressions; None for the first day of the log.
        previous_opens_us: first impression of `previous`.
        first_partition: oldest partition whose events this day may count; None: all.
    """

    date: str
    opens_us: int
    previous: str | None
    previous_opens_us: int | None
    first_partition: str | None


def counted_on(day: OpenedDay, contract: DataContract) -> Column:
    """Whether a row of `user_events` is counted by `day`."""
    visible = F.unix_micros(visible_ts(contract))
    counted = (F.col("date") < day.date) & (visible <= day.opens_us)
    if day.previous is None or day.previous_opens_us is None:
        return counted
    not_before = (F.col("date") >= day.previous) | (visible > day.previous_opens_us)
    return counted & not_before & (F.col("date") >= (day.first_partition or ""))


def counter_key(counter: Counter, columns: dict[str, Column]) -> Column:
    """Key values joined by a vertical bar; null where one of them is unknown, '' for no keys."""
    parts: list[Column] = []
    for position, key in enumerate(counter.keys):
        parts += [F.lit("|")] * (position > 0) + [columns[key].cast("string")]
    return F.concat(*parts) if parts else F.lit("")


def _event_columns(contract: DataContract) -> dict[str, Column]:
    named = {"user": F.col("user_id"), "ad": F.col("ad_id"), "surface": F.col("surface")}
    return named | {a.name: F.col(a.name) for a in contract.sequence.attributes}


def counter_increments(events: DataFrame, days: tuple[OpenedDay, ...], contract: DataContract) -> DataFrame:
    """Count the events that each day learned of, by counter and key.

    Args:
        events: rows of `user_events`, at least the partitions that `days` may count.
        days: days to derive, opening in the order of their dates.
        contract: counters, kinds and the rule of visibility.

    Returns:
        Rows with exactly the columns of the table's schema. One shuffle.
    """
    schema = tables.counter_increments(contract)
    day = F.coalesce(*(F.when(counted_on(day, contract), F.lit(day.date)) for day in days))
    columns = _event_columns(contract)
    matches = [
        F.when(
            F.col("source") == c.source, F.struct(F.lit(c.name).alias("counter"), counter_key(c, columns).alias("key"))
        )
        for c in contract.counters.groups
    ]
    found = F.filter(F.array(*matches), lambda match: match.isNotNull() & match["key"].isNotNull())
    counted = (
        events.withColumn("_day", day)
        .filter("_day IS NOT NULL")
        .select(F.col("_day").alias("date"), "actions", F.inline(found))
    )
    kinds = contract.sequence.kinds
    sums = counted.groupBy("date", "counter", "key").agg(
        F.count("*").alias("events"),
        *(F.sum(F.shiftright("actions", i).bitwiseAND(F.lit(1)).cast("bigint")).alias(f"kind__{kind}")
          for i, kind in enumerate(kinds)),
    )  # fmt: skip
    return sums.select(*(_asked(kind_column, contract) for kind_column in schema.column_names))


def _asked(column: str, contract: DataContract) -> Column:
    """A kind's count, 0 for the counters that do not ask for the kind."""
    if not column.startswith("kind__"):
        return F.col(column)
    asking = [c.name for c in contract.counters.groups if column.removeprefix("kind__") in c.kinds]
    return F.when(F.col("counter").isin(*asking), F.col(column)).otherwise(F.lit(0)).cast("bigint").alias(column)


def _lookup(counter: Column, key: Column) -> Column:
    """64-bit hash of a counter and its key: joins of numbers are several times faster than of strings."""
    return F.xxhash64(counter, key)


def _lookups(impressions: DataFrame, contract: DataContract) -> DataFrame:
    """One row an impression and counter: date, impression_id, counter, lookup; unknown keys are left out."""
    columns = {"user": F.col("user_id"), "ad": F.col("ad_id"), "surface": F.col("surface")}
    columns |= {a.name: F.col(f"attribute__{a.name}") for a in contract.sequence.attributes}
    keys = [(F.lit(c.name), counter_key(c, columns)) for c in contract.counters.groups]
    pairs = [
        F.struct(name.alias("counter"), F.when(key.isNotNull(), _lookup(name, key)).alias("lookup"))
        for name, key in keys
    ]
    known = F.filter(F.array(*pairs), lambda pair: pair["lookup"].isNotNull())
    return impressions.select("date", "impression_id", F.inline(known))


def with_counters(
    impressions: DataFrame, increments: DataFrame, contract: DataContract, *, broadcast: bool
) -> DataFrame:
    """Add every counter column: the sums of the increments of (date - window_days, date], 0 where there are none.

    Args:
        impressions: `date`, `impression_id`, `user_id`, `ad_id`, `surface`, and attributes named
            `attribute__<name>`; (date, impression_id) is unique.
        increments: rows of `counter_increments`, at least the windows of the impressions' dates.
        contract: counters and their window.
        broadcast: whether one number a kind for each impression and counter fits in memory; it saves
            shuffling them and changes no value.
    """
    if not contract.counters.groups:
        return impressions
    numbers = ["events", *(f"kind__{kind}" for kind in contract.sequence.kinds)]
    lookups = _lookups(impressions, contract)
    learned = increments.select(
        F.col("date").alias("_learned"), _lookup(F.col("counter"), F.col("key")).alias("lookup"), *numbers
    )
    oldest = F.date_sub(F.col("date").cast("date"), contract.counters.window_days)
    in_window = (F.col("_learned") <= F.col("date")) & (F.col("_learned").cast("date") > oldest)
    sums = (
        lookups.select("lookup", "date").distinct().join(learned, on="lookup").filter(in_window)
        .groupBy("lookup", "date").agg(F.array(*(F.sum(number) for number in numbers)).alias("counts"))
    )  # fmt: skip
    found = (
        lookups.join(F.broadcast(sums) if broadcast else sums, on=["lookup", "date"])
        .groupBy("date", "impression_id")
        .agg(F.map_from_entries(F.collect_list(F.struct("counter", "counts"))).alias("_counts"))
    )
    position = {kind: index + 1 for index, kind in enumerate(contract.sequence.kinds)}
    columns = {
        tables.count_column(counter.name, kind): F.coalesce(F.col("_counts")[counter.name][index], F.lit(0))
        for counter in contract.counters.groups
        for kind, index in ((None, 0), *((kind, position[kind]) for kind in counter.kinds))
    }
    return impressions.join(found, on=["date", "impression_id"], how="left").withColumns(columns).drop("_counts")
