"""`user_events` of a world by Polars or DuckDB, run by an interpreter that has them.

Judge, drop copies (the same user and id earlier in the date or on the date before), bits, ad attribute as of the
event, clustered by (bucket, user, time), a file a date and bucket.

python _derivation_peers.py polars|duckdb BRONZE_FILES CONTENT_FILES TARGET; prints the seconds. Standard library,
Polars and DuckDB only: nothing of this project is imported.
"""

from __future__ import annotations

import json
import sys
import time
from datetime import date
from pathlib import Path

KINDS = ("view", "like", "share", "comment", "message", "hide", "survey_positive", "survey_negative", "ad_view",
         "click", "purchase", "lead", "conversation")  # fmt: skip
SURFACES, SOURCES, BUCKETS = ("feed", "photos", "messaging"), ("organic", "ad"), 4
READ = ("event_id", "user_id", "content_id", "surface", "source", "actions", "dwell_s", "event_ts", "ingest_ts")
KEYS = ("event_id", "user_id", "content_id", "event_ts", "ingest_ts", "actions")


def by_polars(days: dict[str, list[str]], content: list[str], target: Path) -> None:
    """Polars: the whole as one query, streamed into a partitioned sink."""
    import polars as pl

    scans = [
        pl.scan_parquet(files).with_columns(date=pl.lit(day), day=pl.lit(date.fromisoformat(day)))
        for day, files in days.items()
    ]
    known = pl.all_horizontal(pl.col(name).is_not_null() for name in KEYS)
    kept = pl.concat(scans, how="diagonal").filter(
        known & pl.col("surface").is_in(SURFACES) & pl.col("source").is_in(SOURCES)
        & pl.col("actions").list.eval(pl.element().is_in(KINDS)).list.all()
        & (pl.col("ingest_ts") >= pl.col("event_ts"))
        & (pl.col("event_ts") <= pl.col("day").cast(pl.Datetime("us", "UTC")) + pl.duration(days=2))
    )  # fmt: skip
    ordered = kept.sort("user_id", "event_id", "day", "ingest_ts")
    again = pl.all_horizontal(pl.col(name) == pl.col(name).shift() for name in ("user_id", "event_id"))
    near = pl.col("day") - pl.col("day").shift() <= pl.duration(days=1)
    once = ordered.filter(~(again & near).fill_null(False))
    bits = sum(pl.col("actions").list.contains(kind).cast(pl.Int32) * (1 << i) for i, kind in enumerate(KINDS))
    makers = pl.scan_parquet(content).select("content_id", "valid_from", "maker_id").sort("valid_from")
    rows = (
        once.sort("event_ts")
        .join_asof(makers, left_on="event_ts", right_on="valid_from", by="content_id", strategy="backward")
        .select(
            "date", (pl.col("user_id").hash() % BUCKETS).alias("bucket"), "user_id", "event_ts", "ingest_ts",
            pl.col("event_id").hash().alias("event_key"), pl.col("content_id").alias("ad_id"), "surface", "source",
            bits.alias("actions"), pl.col("dwell_s").alias("value"), pl.col("maker_id").alias("maker"),
        )
        .sort("date", "bucket", "user_id", "event_ts", "ingest_ts", "event_key")
    )  # fmt: skip
    for (day, bucket), part in rows.collect().partition_by("date", "bucket", as_dict=True).items():
        folder = target / f"date={day}" / f"bucket={bucket}"
        folder.mkdir(parents=True)
        part.drop("date", "bucket").write_parquet(folder / "part.parquet", compression="zstd")


def by_duckdb(days: dict[str, list[str]], content: list[str], target: Path) -> None:
    """DuckDB: one statement."""
    import duckdb

    run = duckdb.connect()
    run.execute(f"SET threads = 2; SET temp_directory = '{target.parent}/duckdb'; SET preserve_insertion_order = true")
    union = " UNION ALL BY NAME ".join(
        f"SELECT {', '.join(READ)}, '{day}' AS date FROM read_parquet({files!r})" for day, files in days.items()
    )
    known = " AND ".join(f"{name} IS NOT NULL" for name in KEYS)
    bits = " | ".join(f"(list_contains(actions, '{kind}')::INT << {i})" for i, kind in enumerate(KINDS))
    run.execute(
        f"""COPY (
            WITH kept AS (
                SELECT * FROM ({union})
                WHERE {known} AND surface IN {SURFACES} AND source IN {SOURCES}
                    AND list_has_all({list(KINDS)!r}, actions) AND ingest_ts >= event_ts
                    AND event_ts <= date::DATE::TIMESTAMP AT TIME ZONE 'UTC' + INTERVAL 2 DAY
                QUALIFY coalesce(date::DATE - lag(date::DATE) OVER (
                    PARTITION BY user_id, event_id ORDER BY date, ingest_ts), 9) > 1)
            SELECT date, hash(user_id) % {BUCKETS} AS bucket, user_id, event_ts, ingest_ts, hash(event_id) AS event_key,
                kept.content_id AS ad_id, surface, source, {bits} AS actions, dwell_s AS value, maker_id AS maker
            FROM kept ASOF LEFT JOIN (SELECT content_id, valid_from, maker_id FROM read_parquet({content!r})) AS made
                ON kept.content_id = made.content_id AND kept.event_ts >= made.valid_from
            ORDER BY date, bucket, user_id, event_ts, ingest_ts, event_key
        ) TO '{target}' (FORMAT parquet, COMPRESSION zstd, PARTITION_BY (date, bucket))"""
    )


def main() -> None:
    """Run one engine and print its seconds, imports excluded."""
    engine, bronze, content, target = sys.argv[1:]
    __import__(engine)
    days, made = json.loads(Path(bronze).read_text()), json.loads(Path(content).read_text())
    started = time.perf_counter()
    {"polars": by_polars, "duckdb": by_duckdb}[engine](days, made, Path(target))
    print(time.perf_counter() - started)


if __name__ == "__main__":
    main()
