"""The counter columns of `examples`: daily increments added up, and what became visible since the day opened.

Counters of the same keys share everything: one lookup an impression finds the numbers of all of them, whatever
their sources, kinds, windows and lags. Ours.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from gem_pipeline.contracts import tables
from gem_pipeline.contracts.contract import DataContract
from spark.counters import counter_key
from spark.open_day import OpenDay, key_sets, open_counts, tally_column


@dataclass(frozen=True, kw_only=True, slots=True)
class _Sum:
    """A number that is added up over a window: the events of a source, or those that carry a kind."""

    source: str
    kind: str | None
    window_days: int


def _sums(contract: DataContract) -> tuple[_Sum, ...]:
    """Every sum that some counter asks for."""
    counters = contract.counters
    return tuple(
        dict.fromkeys(
            _Sum(source=c.source, kind=kind, window_days=counters.window_of(c))
            for c in counters.groups
            for kind in (None, *c.kinds)
        )
    )


def _lookup(number: int | Column, key: Column) -> Column:
    """64-bit hash of a set of keys and their values: joins of numbers are several times faster than of strings."""
    return F.xxhash64(F.lit(number) if isinstance(number, int) else number, key)


def _impression_keys(contract: DataContract) -> list[Column]:
    """Key values of an impression, by set of keys; null where one is unknown."""
    columns = {"user": F.col("user_id"), "ad": F.col("ad_id"), "surface": F.col("surface")}
    columns |= {a.name: F.col(f"attribute__{a.name}") for a in contract.sequence.attributes}
    return [counter_key(keys, columns) for keys in key_sets(contract)]


def _sums_by_key(impressions: DataFrame, increments: DataFrame, contract: DataContract) -> DataFrame:
    """Sums of increments for each date, set of keys and their values that an impression asks for.

    Returns:
        `slot`: hash of date, set of keys and their values; `s0`, `s1` ... in the order of `_sums`.
    """
    counters, sets = contract.counters, key_sets(contract)
    lookups = [F.when(k.isNotNull(), _lookup(number, k)) for number, k in enumerate(_impression_keys(contract))]
    asked = impressions.select("date", F.explode(F.array_compact(F.array(*lookups))).alias("lookup")).distinct()
    number = F.coalesce(*(F.when(F.col("counter") == c.name, F.lit(sets.index(c.keys))) for c in counters.series))
    stored: dict[str, list[str]] = {}
    for c in counters.series:
        stored.setdefault(c.source, []).append(c.name)
    learned = increments.select(
        F.col("date").cast("date").alias("_learned"), "counter", _lookup(number, F.col("key")).alias("lookup"),
        "events", *(f"kind__{kind}" for kind in contract.sequence.kinds),
    )  # fmt: skip
    age = F.date_diff(F.col("date").cast("date"), F.col("_learned"))

    def added(one: _Sum) -> Column:
        counted = (age < one.window_days) & F.col("counter").isin(*stored[one.source])
        return F.sum(F.when(counted, F.col(f"kind__{one.kind}" if one.kind else "events")).otherwise(F.lit(0)))

    return (
        asked.join(learned, on="lookup")
        .filter((age >= 0) & (age < counters.longest_window_days))
        .groupBy("lookup", "date")
        .agg(*(added(one).alias(f"s{place}") for place, one in enumerate(_sums(contract))))
        .withColumn("slot", F.xxhash64("date", "lookup"))
        .drop("lookup", "date")
    )


def _lagged_counts(impressions: DataFrame, increments: DataFrame, contract: DataContract) -> DataFrame:
    """One row an impression and set of keys: date, impression_id, set, and the sums of its key."""
    pairs = []
    for number, key in enumerate(_impression_keys(contract)):
        slot = F.xxhash64(F.col("date"), _lookup(number, key))
        pairs.append(F.when(key.isNotNull(), F.struct(F.lit(number).alias("set"), slot.alias("slot"))))
    asking = impressions.select("date", "impression_id", F.inline(F.array_compact(F.array(*pairs))))
    return asking.join(_sums_by_key(impressions, increments, contract), on="slot").drop("slot")


def _side_by_side(rows: DataFrame, wanted: dict[str, tuple[int, str]]) -> DataFrame:
    """Put the numbers of an impression side by side.

    Args:
        rows: `date`, `impression_id`, `set`, and number columns; rows of one impression and set of keys add up.
        wanted: new column -> set of keys and number column.

    Returns:
        `date`, `impression_id` and the new columns, null where the set has no row.
    """
    columns = (F.sum(F.when(F.col("set") == number, F.col(name))).alias(new) for new, (number, name) in wanted.items())
    return rows.groupBy("date", "impression_id").agg(*columns)


def with_counters(
    impressions: DataFrame, increments: DataFrame, contract: DataContract, *, open_day: OpenDay | None = None
) -> DataFrame:
    """Add every counter column; 0 where nothing was counted.

    A counter of lag `day` is the sum of the increments of the dates in (date - window, date]; one of lag `none` adds
    what became visible since the day opened, up to and including the instant of the impression (an event is visible
    from the microsecond after it happened). No event is in both parts: `counted_on` of a day and `seen_within` of it
    or a later one exclude each other.

    One shuffle of narrow rows (an impression and set of keys) finds the sums, one more brings them together.

    Args:
        impressions: `date`, `impression_id`, `user_id`, `ad_id`, `surface`, `impression_ts`, and attributes named
            `attribute__<name>`; (date, impression_id) is unique. Read several times: cache them.
        increments: rows of `counter_increments`, at least the windows of the impressions' dates.
        contract: counters and their windows.
        open_day: events and openings of the dates; needed where a counter has lag `none`.
    """
    groups, sets, sums = contract.counters.groups, key_sets(contract), _sums(contract)
    if not groups:
        return impressions
    counts = _lagged_counts(impressions, increments, contract)
    if contract.counters.see_open_day:
        assert open_day is not None, "a counter of lag none needs the events of its day"
        keys = F.array(*_impression_keys(contract)).alias("keys")
        keyed = impressions.select("date", "impression_id", "impression_ts", keys)
        counts = counts.unionByName(open_counts(keyed, open_day, contract), allowMissingColumns=True)
    wanted: dict[str, tuple[int, str]] = {}
    columns: dict[str, Column] = {}
    for counter in groups:
        number = sets.index(counter.keys)
        for kind in (None, *counter.kinds):
            one = _Sum(source=counter.source, kind=kind, window_days=contract.counters.window_of(counter))
            names = [f"s{sums.index(one)}"]
            if counter.lag == "none":
                names.append(tally_column(contract, counter.source, kind))
            wanted |= {f"_{number}_{name}": (number, name) for name in names}
            parts = [F.coalesce(F.col(f"_{number}_{name}"), F.lit(0)) for name in names]
            columns[tables.count_column(counter.name, kind)] = reduce(lambda one, other: one + other, parts)
    found = _side_by_side(counts, wanted)
    return impressions.join(found, on=["date", "impression_id"], how="left").withColumns(columns).drop(*wanted)
