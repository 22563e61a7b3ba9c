"""Column expressions that several derivations share: ids, buckets, visibility, and attributes as of a time."""

from __future__ import annotations

from typing import Literal

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from gem_pipeline.contracts.contract import DataContract
from gem_pipeline.errors import SchemaError

_INTEGERS = (T.ByteType, T.ShortType, T.IntegerType, T.LongType)
Role = Literal["string", "number", "label", "boolean", "actions", "day", "single", "list"]


def column_type(frame: DataFrame, column: str, table: str) -> T.DataType:
    """Type of a column of a bronze table.

    Raises:
        SchemaError: the table lacks the column.
    """
    if column not in frame.columns:
        raise SchemaError(
            f"Table {table} lacks column {column}.",
            remedy="Mend the contract's column names, or the table; `gem check` lists all.",
        )
    return frame.schema[column].dataType


def typed(frame: DataFrame, column: str, table: str, role: Role) -> str:
    """The name of a column that has a type of its role; the same rules as of `gem check`.

    Raises:
        SchemaError: the column is missing or of another type.
    """
    kind = column_type(frame, column, table)
    element = kind.elementType if isinstance(kind, T.ArrayType) else None
    fits, wanted = {
        "string": (isinstance(kind, T.StringType), "a string"),
        "number": (isinstance(kind, T.NumericType), "a number"),
        "label": (isinstance(kind, (*_INTEGERS, T.BooleanType)), "an integer or a boolean"),
        "boolean": (isinstance(kind, T.BooleanType), "a boolean"),
        "actions": (isinstance(element or kind, T.StringType), "a string or an array of strings"),
        "day": (isinstance(kind, T.StringType | T.DateType), "a string or a date"),
        "single": (not isinstance(kind, T.ArrayType | T.MapType | T.StructType), "a single value"),
        "list": (element is not None or isinstance(kind, T.StringType), "an array or a comma separated string"),
    }[role]
    if fits:
        return column
    raise SchemaError(
        f"Column {column} of table {table} has type {kind.simpleString()}, and {wanted} is needed.",
        remedy="Mend the table's writer, or name another column in the contract.",
    )


def hashed_id(frame: DataFrame, column: str, table: str) -> Column:
    """64-bit id: integer columns as they are, string columns hashed by xxhash64.

    Raises:
        SchemaError: the column is missing, or neither integer nor string.
    """
    kind = column_type(frame, column, table)
    if isinstance(kind, _INTEGERS):
        return F.col(column).cast("bigint")
    if isinstance(kind, T.StringType):
        return F.when(F.col(column).isNotNull(), F.xxhash64(column))
    raise SchemaError(
        f"Column {column} of table {table} has type {kind.simpleString()}, and an id is an integer or a string.",
        remedy="Name another column in the contract, or cast this one.",
    )


def utc_time(frame: DataFrame, column: str, table: str) -> Column:
    """A time column as an instant.

    Raises:
        SchemaError: the column is missing, not a timestamp, or a timestamp without a zone.
    """
    kind = column_type(frame, column, table)
    if isinstance(kind, T.TimestampType):
        return F.col(column)
    if isinstance(kind, T.TimestampNTZType):
        raise SchemaError(
            f"Column {column} of table {table} has times without a zone (timestamp_ntz): which instants they are "
            "is not known.",
            remedy="Write it as timestamps in UTC; in Spark: to_utc_timestamp(column, zone) cast to TIMESTAMP.",
        )
    raise SchemaError(
        f"Column {column} of table {table} has type {kind.simpleString()}, and a time is a timestamp.",
        remedy="Cast the column to a timestamp in the table.",
    )


def user_bucket(user_id: Column, contract: DataContract) -> Column:
    """Bucket of a user, 0 ... user_buckets - 1."""
    return F.pmod(F.xxhash64(user_id), F.lit(contract.visibility.user_buckets)).cast("int")


def visible_ts(contract: DataContract) -> Column:
    """First instant at which an impression may see the event, in whole microseconds.

    `event_ts < t and ingest_ts <= t + allowance` holds exactly when `t >= visible_ts`.
    """
    arrived = F.unix_micros("ingest_ts") - contract.visibility.allowance_s * 1_000_000
    return F.timestamp_micros(F.greatest(F.unix_micros("event_ts") + 1, arrived))


def keep_first(rows: DataFrame, *, key: list[str], order: list[str]) -> DataFrame:
    """One row a key: the first by `order`, equal ones by the hash of the whole row, whatever the input order."""
    return ranked_copies(rows, key=key, order=order).filter("_rank = 1").drop("_rank")


def ranked_copies(
    rows: DataFrame, *, key: list[str], order: list[str], ignored: tuple[str, ...] = ()
) -> DataFrame:  # fmt: skip
    """Add `_rank`, 1 for the row of each key that `keep_first` keeps of the frame without the `ignored` columns."""
    ties = F.xxhash64(*sorted(set(rows.columns) - set(ignored)))
    ranked = Window.partitionBy(*key).orderBy(*order, ties)
    return rows.withColumn("_rank", F.row_number().over(ranked))


def attributes_as_of(facts: DataFrame, dimension: DataFrame, *, key: str, time: str, has_validity: bool) -> DataFrame:
    """Left-join the attributes in force at the time of each fact.

    Args:
        facts: rows with the columns `key` and `time`.
        dimension: `key`, attributes, and `valid_from` where `has_validity`.
        key: shared 64-bit id.
        time: column of `facts`.
        has_validity: take the newest row with `valid_from <= time`; otherwise the one row of the key.
    """
    if not has_validity:
        return facts.join(keep_first(dimension, key=[key], order=[]), on=key, how="left")
    versions = keep_first(dimension, key=[key, "valid_from"], order=[])
    until = F.lead("valid_from").over(Window.partitionBy(key).orderBy("valid_from"))
    spans = versions.withColumn("_until", until).withColumnRenamed(key, "_key")
    in_force = (
        (F.col(key) == F.col("_key"))
        & (F.col("valid_from") <= F.col(time))
        & (F.col("_until").isNull() | (F.col(time) < F.col("_until")))
    )
    return facts.join(spans, on=in_force, how="left").drop("_key", "_until", "valid_from")
