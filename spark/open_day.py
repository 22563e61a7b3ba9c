"""What became visible between the opening of a day and each of its impressions: the rest of a counter of lag `none`.

Ours: one running sum over the union of events and impressions, by time, for all counters at once.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from gem_pipeline.contracts.contract import DataContract
from spark.counters import OpenedDay, counter_key, event_columns, seen_within
from spark.expressions import visible_ts

SLICE_US = 300 * 1_000_000  # keys that everyone shares are counted in slices of five minutes


@dataclass(frozen=True, kw_only=True, slots=True)
class OpenDay:
    """What counters of lag `none` read beside the increments.

    Attributes:
        events: rows of `user_events`, at least the partitions from `max_delay_days` before each date up to it.
        days: the dates, and when they opened.
    """

    events: DataFrame
    days: tuple[OpenedDay, ...]


def key_sets(contract: DataContract) -> tuple[tuple[str, ...], ...]:
    """The distinct keys of the counters; the position of each is its number."""
    return tuple(dict.fromkeys(counter.keys for counter in contract.counters.groups))


def _open_sets(contract: DataContract) -> dict[int, tuple[str, ...]]:
    """Sets of keys that some counter of lag `none` has, by number, and the sources that it counts."""
    sets, found = key_sets(contract), {}
    for counter in contract.counters.groups:
        if counter.lag == "none":
            number = sets.index(counter.keys)
            found[number] = tuple(dict.fromkeys((*found.get(number, ()), counter.source)))
    return found


def _tallies(contract: DataContract) -> dict[str, tuple[str, str | None]]:
    """Number column -> what it counts: the events of a source (None), or those of them that carry a kind."""
    groups = [c for c in contract.counters.groups if c.lag == "none"]
    tallies = dict.fromkeys((c.source, kind) for c in groups for kind in (None, *c.kinds))
    return {f"n{place}": tally for place, tally in enumerate(tallies)}


def tally_column(contract: DataContract, source: str, kind: str | None) -> str:
    """Column of `open_counts` that counts the events of a source, or those that carry a kind."""
    return next(name for name, tally in _tallies(contract).items() if tally == (source, kind))


def _is_shared(keys: tuple[str, ...]) -> bool:
    """Whether the values of these keys are few, so that each has a large share of the traffic."""
    return set(keys) <= {"surface"}


def _placed(number: int, keys: tuple[str, ...], key: Column, date: Column, at_us: Column) -> Column:
    """Where the rows of a key meet: set, hash of date and key (`lookup`), time `slice` (null where keys are many)."""
    slice_of = F.floor(at_us / SLICE_US) if _is_shared(keys) else F.lit(None)
    return F.struct(
        F.lit(number).alias("set"),
        F.xxhash64(date, F.lit(number), key).alias("lookup"),
        slice_of.cast("bigint").alias("slice"),
    )


def _events(open_day: OpenDay, contract: DataContract) -> DataFrame:
    """One row an event, day that sees it and set of keys that counts it: its place, at_us, and 0 or 1 a tally."""
    sets, kinds = key_sets(contract), contract.sequence.kinds
    days = F.array_compact(F.array(*(F.when(seen_within(day, contract), F.lit(day.date)) for day in open_day.days)))
    seen = open_day.events.select(
        F.explode(days).alias("_day"), F.unix_micros(visible_ts(contract)).alias("at_us"), "source", "actions",
        *(column.alias(f"_key_{name}") for name, column in event_columns(contract).items()),
    )  # fmt: skip
    columns = {name: F.col(f"_key_{name}") for name in event_columns(contract)}
    matches = []
    for number, sources in _open_sets(contract).items():
        key = counter_key(sets[number], columns)
        counted = F.col("source").isin(*sources) & key.isNotNull()
        matches.append(F.when(counted, _placed(number, sets[number], key, F.col("_day"), F.col("at_us"))))
    flags = []
    for name, (source, kind) in _tallies(contract).items():
        bit = F.lit(1) if kind is None else F.shiftright("actions", kinds.index(kind)).bitwiseAND(F.lit(1))
        flags.append(F.when(F.col("source") == source, bit).otherwise(F.lit(0)).cast("int").alias(name))
    return seen.select("at_us", *flags, F.inline(F.array_compact(F.array(*matches))))


def open_counts(impressions: DataFrame, open_day: OpenDay, contract: DataContract) -> DataFrame:
    """Count, for each impression, the events of the open day that were visible at its time.

    Events and impressions of a key meet in one window, ordered by time and events first: the sum up to an impression
    is its count. One shuffle for all counters, whatever their number. A task sorts at most what one day brings for one
    value of keys that have a user, an ad or an attribute in them. Keys without (everything, or a surface) are cut into
    slices of five minutes, so that a task sorts at most what five minutes bring; the sums of the earlier slices, a few
    hundred a value and day, are added afterwards.

    Args:
        impressions: `date`, `impression_id`, `impression_ts` and `keys`, the key values by set of keys.
        open_day: events and openings of (at least) the dates of the impressions.
        contract: counters and the rule of visibility.

    Returns:
        `date`, `impression_id`, `set` and the columns of `tally_column`; a set without counts has no row.
    """
    sets, numbers, at_us = key_sets(contract), list(_tallies(contract)), F.unix_micros("impression_ts")
    places = []
    for number in _open_sets(contract):
        key = F.col("keys")[number]
        places.append(F.when(key.isNotNull(), _placed(number, sets[number], key, F.col("date"), at_us)))
    placed = F.inline(F.array_compact(F.array(*places)))
    asking = impressions.select("date", "impression_id", at_us.alias("at_us"), placed)
    events = _events(open_day, contract)
    together = asking.unionByName(events, allowMissingColumns=True)
    ordered = Window.partitionBy("lookup", "slice").orderBy("at_us", F.col("impression_id").isNotNull())
    so_far = ordered.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    running = together.select(
        "date", "impression_id", "set", "lookup", "slice",
        *(F.coalesce(F.sum(name).over(so_far), F.lit(0)).alias(name) for name in numbers),
    ).filter("impression_id IS NOT NULL")  # fmt: skip
    if any(_is_shared(sets[number]) for number in _open_sets(contract)):
        running = _with_earlier_slices(running, events, asking, numbers)
    return running.filter(F.greatest(F.lit(0), *numbers) > 0).select("date", "impression_id", "set", *numbers)


def _with_earlier_slices(running: DataFrame, events: DataFrame, asking: DataFrame, numbers: list[str]) -> DataFrame:
    """Add the sums of the slices before that of each row."""
    sliced = (
        events.filter("slice IS NOT NULL")
        .groupBy("lookup", "slice")
        .agg(*(F.sum(name).alias(name) for name in numbers))
    )
    asked = asking.filter("slice IS NOT NULL").select("lookup", "slice").distinct()
    both = asked.unionByName(sliced, allowMissingColumns=True).groupBy("lookup", "slice")
    totals = both.agg(*(F.sum(name).alias(name) for name in numbers))
    before = Window.partitionBy("lookup").orderBy("slice").rowsBetween(Window.unboundedPreceding, -1)
    carried = totals.select("lookup", "slice", *(F.sum(name).over(before).alias(f"_before_{name}") for name in numbers))
    joined = running.join(F.broadcast(carried), on=["lookup", "slice"], how="left")
    sums = {name: F.col(name) + F.coalesce(F.col(f"_before_{name}"), F.lit(0)) for name in numbers}
    return joined.withColumns(sums).drop(*(f"_before_{name}" for name in numbers))
