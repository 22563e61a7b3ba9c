"""Vectors of ads and users: cleaned, and kept only where they changed."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from gem_pipeline.contracts import tables
from gem_pipeline.contracts.contract import DataContract, Feature
from gem_pipeline.contracts.tables import ALL_DAYS, Origin, entity_key
from gem_pipeline.errors import SchemaError
from spark.expressions import column_type, hashed_id, keep_first, typed, user_bucket, utc_time
from spark.judging import first_fault, null_faults

_RAW = "raw__"


def _floats(dimension: DataFrame, feature: Feature, table: str) -> Column:
    """The column as an array of 32-bit floats.

    Raises:
        SchemaError: the column is missing, or no array of floats.
    """
    kind = column_type(dimension, feature.column, table)
    if isinstance(kind, T.ArrayType) and isinstance(kind.elementType, T.FloatType | T.DoubleType):
        return F.col(feature.column).cast("array<float>")
    raise SchemaError(
        f"Column {feature.column} of table {table} has type {kind.simpleString()}, and a vector is an array of floats.",
        remedy="Name another column in the contract, or cast this one.",
    )


def _keyed(dimension: DataFrame, contract: DataContract, origin: Origin) -> DataFrame:
    """Id, `valid_from` (1970 where the contract names none) and every vector as it stands, as `raw__<name>`.

    While a user has opted out there is no vector of his.
    """
    ref = contract.tables.ads if origin == "ads" else contract.tables.users
    always = F.timestamp_micros(F.lit(0))
    opt_out = contract.tables.users.opt_out if origin == "users" else None
    said = F.lit(False) if opt_out is None else F.coalesce(typed(dimension, opt_out, origin, "boolean"), F.lit(False))
    columns = {
        entity_key(origin): hashed_id(dimension, ref.key, origin),
        "valid_from": utc_time(dimension, ref.valid_from, origin) if ref.valid_from else always,
        **{f"{_RAW}{f.name}": F.when(~said, _floats(dimension, f, origin)) for f in contract.vectors_of(origin)},
    }
    return dimension.select(*(column.alias(name) for name, column in columns.items()))


def _faults(feature: Feature) -> list[tuple[Column, str]]:
    """What may be wrong with a vector; none of it where there is no vector."""
    raw = F.col(f"{_RAW}{feature.name}")
    rules = {
        "wrong dimension": F.size(raw) != feature.dim,
        "null element": F.exists(raw, lambda x: x.isNull()),
        "NaN": F.exists(raw, lambda x: F.isnan(x)),  # noqa: PLW0108 (isnan itself would take the index too)
        "infinite": F.exists(raw, lambda x: F.abs(x) == float("inf")),
    }
    return [(raw.isNotNull() & broken, f"{feature.name}: {reason}") for reason, broken in rules.items()]


def judged_vectors(dimension: DataFrame, contract: DataContract, origin: Origin) -> DataFrame:
    """Name what is wrong with each row.

    Args:
        dimension: bronze rows of the ads or the users.
        contract: names the columns and dimensions.
        origin: which of the two.

    Returns:
        One row an input row: `date` (always `ALL_DAYS`), id, `valid_from`, each vector as it stands
        (`raw__<name>`), each usable one (`<name>`, else null), and the first `fault` (null: none).

    Raises:
        SchemaError: a column is missing or has an unusable type.
    """
    own, keys = contract.vectors_of(origin), (entity_key(origin), "valid_from")
    usable = {f.name: F.when(first_fault(_faults(f)).isNull(), F.col(f"{_RAW}{f.name}")) for f in own}
    fault = first_fault([*null_faults(keys), *(rule for f in own for rule in _faults(f))])
    return _keyed(dimension, contract, origin).withColumns({"date": F.lit(ALL_DAYS), "fault": fault} | usable)


def vectors(judged: DataFrame, contract: DataContract, origin: Origin) -> DataFrame:
    """Derive the vector table of a dimension.

    A vector with a fault is no vector. A row is kept where any vector differs from the row before it in force, so
    that a new bid or budget does not store the same vector again; as of any time the answer is the same.

    Args:
        judged: rows of `judged_vectors`.
        contract: names the columns.
        origin: ads or users.

    Returns:
        Rows with exactly the columns of `tables.vectors`; those without an id or a time are left out.
    """
    schema, key = tables.vectors(contract, origin), entity_key(origin)
    own = [f.name for f in contract.vectors_of(origin)]
    kept = judged.filter(f"`{key}` IS NOT NULL AND valid_from IS NOT NULL").select(key, "valid_from", *own)
    versions = keep_first(kept, key=[key, "valid_from"], order=[])
    time_line = Window.partitionBy(key).orderBy("valid_from")
    same = F.lit(True)
    for name in own:  # before its first row an entity has no vector
        same &= F.col(name).eqNullSafe(F.lag(name).over(time_line))
    changed = versions.withColumn("_same", same).filter("NOT _same")
    derived = {"date": F.lit(ALL_DAYS), "bucket": user_bucket(F.col(key), contract)}
    return changed.select(
        *(derived.get(c.name, F.col(c.name)).cast(schema.spark_type(c.name)).alias(c.name) for c in schema.columns)
    )


def quarantined_vectors(judged: DataFrame) -> DataFrame:
    """Rows of `judged_vectors` with a fault: date, reason, and the row as JSON; its other vectors are used."""
    made = {"date", "fault", *(name.removeprefix(_RAW) for name in judged.columns if name.startswith(_RAW))}
    source = [F.col(name).alias(name.removeprefix(_RAW)) for name in judged.columns if name not in made]
    whole = F.to_json(F.struct(*source), {"timeZone": "UTC"})
    return judged.filter("fault IS NOT NULL").select("date", F.col("fault").alias("reason"), whole.alias("row"))
