"""Numbers of each date partition: rows, a hash of the content, and statistics for people."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from gem_pipeline.contracts import tables
from gem_pipeline.contracts.contract import DataContract


def content_hash(columns: list[str]) -> Column:
    """Hash of a set of rows, whatever their order and files: number, sum and xor of 64-bit row hashes.

    Ours. It tells different data apart; it is no protection against forgery.
    """
    row = F.xxhash64(*columns)
    halves = [F.sum(F.shiftrightunsigned(row, 32)), F.sum(row.bitwiseAND(F.lit(0xFFFFFFFF)))]
    parts = [F.count("*"), *halves, F.bit_xor(row)]
    return F.substring(F.sha2(F.concat_ws("|", *(part.cast("string") for part in parts)), 256), 1, 16)


def _statistics(contract: DataContract, table: str, columns: list[str]) -> dict[str, Column]:
    if table == "user_events":
        kinds = enumerate(contract.sequence.kinds)
        counts = {f"events__{kind}": F.count_if(F.col("actions").bitwiseAND(F.lit(1 << i)) != 0) for i, kind in kinds}
        return {"users": F.approx_count_distinct("user_id")} | counts
    if table == "counter_increments":
        return {"counted": F.sum("events")}
    if table in tables.VECTOR_TABLES:
        names = [f.name for f in contract.features if f.kind == "vector" and f.name in columns]
        return {"entities": F.approx_count_distinct(table.replace("_vectors", "_id"))} | {
            f"vectors__{n}": F.count(n) for n in names
        }
    if table == "attributed_conversions":
        names = [o.name for o in contract.conversion_objectives]
        counts = {f"conversions__{name}": F.count_if(F.col("objective") == name) for name in names}
        return counts | {"after_a_click": F.count_if(F.col("attribution") == "click")}
    labels = {o.name: F.col(tables.label_column(o.name)) for o in contract.column_objectives}
    rates = {f"rate__{name}": F.avg(label) for name, label in labels.items()}
    return {"users": F.approx_count_distinct("user_id")} | rates


def partition_profile(rows: DataFrame, contract: DataContract, table: str) -> DataFrame:
    """One row a date: date, num_rows, content_hash, and one `stat__<name>` column a statistic."""
    statistics = _statistics(contract, table, rows.columns)
    return rows.groupBy("date").agg(
        F.count("*").alias("num_rows"),
        content_hash(rows.columns).alias("content_hash"),
        *(column.alias(f"stat__{name}") for name, column in statistics.items()),
    )
