"""`counter_increments`: what became known since the previous day opened, by series and key.

Ours: a day opens with its first impression, and an event is counted by the first day after its own
partition at whose opening it was visible, so each event is counted exactly once and no impression sees
a count that its platform could not have had. `spark/counter_columns.py` adds the increments up.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from gem_pipeline.contracts import tables
from gem_pipeline.contracts.contract import DataContract
from gem_pipeline.contracts.conversions import days_before
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


def seen_within(day: OpenedDay, contract: DataContract) -> Column:
    """Whether a row of `user_events` becomes visible within `day`, and is counted by a later one.

    Of the partitions that the next day may count those up to `day` itself: its own events whenever they become
    visible, and earlier ones that were not visible when it opened, unless they came too late to count at all.
    """
    visible = F.unix_micros(visible_ts(contract))
    late = (F.col("date") < day.date) & (visible > day.opens_us)
    return (F.col("date") == day.date) | (
        late & (F.col("date") >= days_before(day.date, contract.visibility.max_delay_days))
    )


def counter_key(keys: tuple[str, ...], columns: dict[str, Column]) -> Column:
    """Key values joined by a vertical bar; null where one of them is unknown, '' for no keys."""
    parts: list[Column] = []
    for position, key in enumerate(keys):
        parts += [F.lit("|")] * (position > 0) + [columns[key].cast("string")]
    return F.concat(*parts) if parts else F.lit("")


def event_columns(contract: DataContract) -> dict[str, Column]:
    """Columns of `user_events` by the key that they are of a counter."""
    named = {"user": F.col("user_id"), "ad": F.col("ad_id"), "surface": F.col("surface")}
    return named | {a.name: F.col(a.name) for a in contract.sequence.attributes}


def counter_increments(events: DataFrame, days: tuple[OpenedDay, ...], contract: DataContract) -> DataFrame:
    """Count the events that each day learned of, by series (`Counters.series`) and key.

    Args:
        events: rows of `user_events`, at least the partitions that `days` may count.
        days: days to derive, opening in the order of their dates.
        contract: counters, kinds and the rule of visibility.

    Returns:
        Rows with exactly the columns of the table's schema. One shuffle.
    """
    schema = tables.counter_increments(contract)
    day = F.coalesce(*(F.when(counted_on(day, contract), F.lit(day.date)) for day in days))
    columns = event_columns(contract)
    matches = [
        F.when(
            F.col("source") == c.source,
            F.struct(F.lit(c.name).alias("counter"), counter_key(c.keys, columns).alias("key")),
        )
        for c in contract.counters.series
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
    """A kind's count, 0 for the series whose counters do not ask for the kind."""
    if not column.startswith("kind__"):
        return F.col(column)
    asking = [c.name for c in contract.counters.series if column.removeprefix("kind__") in c.kinds]
    return F.when(F.col("counter").isin(*asking), F.col(column)).otherwise(F.lit(0)).cast("bigint").alias(column)
