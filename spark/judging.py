"""What is said of every source row before it is used: its first fault, who is unknown, who has opted out. Ours.

Nothing is lost: a row is kept, or it is in the quarantine with one reason, or it is a later copy of a kept row, which
is in the quarantine, too.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from gem_pipeline.contracts.contract import DataContract
from spark.expressions import attributes_as_of, hashed_id, ranked_copies, typed, utc_time

DUPLICATE = "duplicate id"
OPTED_OUT = "opted out"
NOT_ATTRIBUTED = "not attributed"
NO_FAULTS = (OPTED_OUT, NOT_ATTRIBUTED)  # reasons of rows that are as they should be
DAY_US = 86_400_000_000
_END_OF_TIME_US = 253_402_300_799_000_000  # the year 9999


def first_fault(rules: Sequence[tuple[Column, str]]) -> Column:
    """The reason of the first rule that a row breaks; null where it breaks none."""
    return F.coalesce(*(F.when(broken, F.lit(reason)) for broken, reason in rules))


def null_faults(columns: Sequence[str]) -> list[tuple[Column, str]]:
    """A rule a column: it may not be null."""
    return [(F.col(column).isNull(), f"null {column}") for column in columns]


def unknown_faults() -> list[tuple[Column, str]]:
    """The rules that user and ad are known; they hold unless the contract asks."""
    return [(~F.col("known_user"), "unknown user"), (~F.col("known_ad"), "unknown ad")]


def not_among(column: str, values: Sequence[str], reason: str) -> tuple[Column, str]:
    """The rule that a column holds one of some values."""
    return ~F.coalesce(F.col(column).isin(*values), F.lit(False)), reason


def day_offset_us(time: str, *, day: str = "date") -> Column:
    """Microseconds from the start (UTC) of a row's day partition to a time, whatever the session's zone."""
    return F.unix_micros(time) - F.unix_date(F.col(day).try_cast("date")).cast("bigint") * DAY_US


def with_user_state(facts: DataFrame, users: DataFrame, contract: DataContract, *, time: str) -> DataFrame:
    """Add `opted_out` and `known_user`, as of the time of each fact; what the contract does not ask for is not joined.

    A user is opted out where any of his rows in force says so. Without a time of its own a fact is judged by its
    arrival, without that by the newest row, so that no row of an opted-out user escapes.

    Args:
        facts: rows with `user_id`, `ingest_ts` and the column `time`.
        users: bronze user dimension.
        contract: names the columns and asks.
        time: when the fact happened.

    Raises:
        SchemaError: the opt-out column is missing or not a boolean.
    """
    ref = contract.tables.users
    ask_known = contract.quality.unknown_users == "quarantine"
    if ref.opt_out is None and not ask_known:
        return facts.withColumns({"opted_out": F.lit(False), "known_user": F.lit(True)})
    said = F.lit(False) if ref.opt_out is None else F.col(typed(users, ref.opt_out, "users", "boolean"))
    keys = {"user_id": hashed_id(users, ref.key, "users")}
    if ref.valid_from:
        keys["valid_from"] = utc_time(users, ref.valid_from, "users")
    states = (
        users.select(*(column.alias(name) for name, column in keys.items()), said.alias("_said"))
        .filter("user_id IS NOT NULL").groupBy(*keys)
        .agg(F.coalesce(F.max("_said"), F.lit(False)).alias("_said"), F.lit(True).alias("_known"))
    )  # fmt: skip
    timed = facts.withColumn("_as_of", F.coalesce(time, "ingest_ts", F.timestamp_micros(F.lit(_END_OF_TIME_US))))
    judged = attributes_as_of(timed, states, key="user_id", time="_as_of", has_validity=ref.valid_from is not None)
    known = F.coalesce("_known", F.lit(False)) if ask_known else F.lit(True)
    return judged.withColumns(
        {"opted_out": F.coalesce("_said", F.lit(False)), "known_user": known}
    ).drop("_said", "_known", "_as_of")  # fmt: skip


def with_ad_state(facts: DataFrame, ads: DataFrame, contract: DataContract, *, time: str) -> DataFrame:
    """Add `known_ad`: whether the ad has attributes in force at the time; not joined unless the contract asks."""
    ref = contract.tables.ads
    if contract.quality.unknown_ads == "keep":
        return facts.withColumn("known_ad", F.lit(True))
    keys = {"ad_id": hashed_id(ads, ref.key, "ads")}
    if ref.valid_from:
        keys["valid_from"] = utc_time(ads, ref.valid_from, "ads")
    known = ads.select(*(column.alias(name) for name, column in keys.items())).filter("ad_id IS NOT NULL").distinct()
    judged = attributes_as_of(
        facts, known.withColumn("_known", F.lit(True)), key="ad_id", time=time, has_validity=ref.valid_from is not None
    )
    return judged.withColumn("known_ad", F.coalesce("_known", F.lit(False))).drop("_known")


STATES = ("opted_out", "known_user", "known_ad", "fault")  # columns that judging adds


def anonymous_user(key: str) -> Column:
    """A 64-bit id that belongs to nobody else: a hash of the one row, so that no history and no attribute is found."""
    return F.xxhash64(F.lit("anonymous"), key)


def left_out(
    judged: DataFrame, *, key: str, order: Sequence[str], key_hash: Column, copies_on: Sequence[str]
) -> DataFrame:  # fmt: skip
    """Rows for the quarantine: date, reason, and the row as JSON; of an opted-out user only the hash of the key.

    Args:
        judged: rows with `date` and the columns that judging adds; a null `fault` is a valid row.
        key: column that copies share within a date.
        order: what decides which copy of a valid row is kept; see `keep_first`.
        key_hash: all that is told of a row of an opted-out user.
        copies_on: dates known to hold copies of valid rows; finding them costs a shuffle.
    """
    faulty = judged.filter("fault IS NOT NULL")
    if copies_on:
        valid = judged.filter(F.col("fault").isNull() & F.col("date").isin(*copies_on))
        ranked = ranked_copies(valid, key=[key, "date"], order=list(order), ignored=STATES)
        copies = ranked.filter("_rank > 1").drop("_rank").withColumn("fault", F.lit(DUPLICATE))
        faulty = faulty.unionByName(copies)
    return quarantine_rows(faulty, key_hash=key_hash)


def quarantine_rows(faulty: DataFrame, *, key_hash: Column) -> DataFrame:
    """Date, reason and row of judged rows whose fault is known; see `left_out`."""
    whole = F.to_json(F.struct(*(c for c in faulty.columns if c not in STATES)), {"timeZone": "UTC"})
    row = F.when(F.col("opted_out"), F.to_json(F.struct(key_hash.alias("key_hash")))).otherwise(whole)
    return faulty.select(F.coalesce("date", F.lit("")).alias("date"), F.col("fault").alias("reason"), row.alias("row"))
