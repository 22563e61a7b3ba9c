"""Attributes of users and ads, under the names that the silver tables give them."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from gem_pipeline.contracts import tables
from gem_pipeline.contracts.contract import DataContract, DimensionTable, Feature
from spark.expressions import Role, column_type, hashed_id, typed, utc_time


def feature_value(frame: DataFrame, feature: Feature, table: str) -> Column:
    """The stored value of a feature: string, array of strings, or float (null where not a number).

    Raises:
        SchemaError: the table lacks the feature's column, or it is of a type that does not fit the kind.
    """
    role: Role = {"categorical": "single", "multi_hot": "list"}.get(feature.kind, "number")  # type: ignore[assignment]
    column, kind = F.col(typed(frame, feature.column, table, role)), column_type(frame, feature.column, table)
    if feature.kind == "categorical":
        return column.cast("string")
    if feature.kind == "multi_hot":
        parts = column.cast("array<string>") if isinstance(kind, T.ArrayType) else F.split(column.cast("string"), ",")
        trimmed = F.transform(parts, lambda part: F.trim(part))  # noqa: PLW0108 (trim itself would take the index too)
        return F.filter(trimmed, lambda part: part != "")
    number = column.cast("float")
    return F.when(~F.isnan(number), number)


def _keyed(frame: DataFrame, ref: DimensionTable, table: str, entity: str) -> dict[str, Column]:
    columns = {entity: hashed_id(frame, ref.key, table)}
    if ref.valid_from:
        columns["valid_from"] = utc_time(frame, ref.valid_from, table)
    return columns


def user_attributes(users: DataFrame, contract: DataContract) -> DataFrame:
    """user_id, valid_from (where the contract names one), and every feature of origin `users` but the vectors."""
    columns = _keyed(users, contract.tables.users, "users", "user_id")
    own = [f for f in contract.features if f.origin == "users" and f.kind != "vector"]
    columns |= {f.name: feature_value(users, f, "users") for f in own}
    return users.select(*(c.alias(name) for name, c in columns.items())).filter("user_id IS NOT NULL")


def event_attributes(ads: DataFrame, contract: DataContract) -> DataFrame:
    """ad_id, valid_from, and every sequence attribute as a 64-bit id under the name `attribute__<name>`."""
    columns = _keyed(ads, contract.tables.ads, "ads", "ad_id")
    columns |= {f"attribute__{a.name}": _attribute(ads, a.column) for a in contract.sequence.attributes}
    return ads.select(*(c.alias(name) for name, c in columns.items())).filter("ad_id IS NOT NULL")


def ad_attributes(ads: DataFrame, contract: DataContract) -> DataFrame:
    """`event_attributes` and every feature of origin `ads` that is not one of them, but the vectors."""
    columns = _keyed(ads, contract.tables.ads, "ads", "ad_id")
    columns |= {f"attribute__{a.name}": _attribute(ads, a.column) for a in contract.sequence.attributes}
    shared = [f for f in contract.features if tables.is_event_attribute(contract, f)]
    own = [f for f in contract.features if f.origin == "ads" and f.kind != "vector" and f not in shared]
    columns |= {f.name: feature_value(ads, f, "ads") for f in own}
    return ads.select(*(c.alias(name) for name, c in columns.items())).filter("ad_id IS NOT NULL")


def _attribute(ads: DataFrame, column: str) -> Column:
    kind = column_type(ads, column, "ads")
    if isinstance(kind, T.ByteType | T.ShortType | T.IntegerType | T.LongType):
        return F.col(column).cast("bigint")
    typed(ads, column, "ads", "single")
    return F.when(F.col(column).isNotNull(), F.xxhash64(F.col(column).cast("string")))
