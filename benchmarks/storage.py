"""Bytes that training needs on disk: each event once and pointers, against the fat-row table of the same examples.

Thirty daily partitions, eight impressions and fifty events a user and day, 4 096 events of history before the
first day (counted on our side). Both sides hold the same event columns, as Parquet with dictionaries, one file a
day, sorted by user. A fat row holds the newest N events that were visible to its impression.
"""

from __future__ import annotations

import argparse
import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks._lines import append, line
from gem_pipeline.datasets.worlds import draws

DAYS, IMPRESSIONS, EVENTS, BEFORE = 30, 8, 50, 4096
LENGTHS, CODECS = (256, 1024, 4096, 16_384), ("zstd", "snappy")
DAY_US = 86_400_000_000
USERS, QUICK_USERS = 24, 6
ADS, SURFACES, SOURCES, KINDS = 50_000, ("feed", "photos", "messaging"), ("organic", "ad"), 13


def user_events(user: int) -> dict[str, np.ndarray]:
    """Columns of `user_events` of one user, in time order: history before day 0, then fifty events a day."""
    num = BEFORE + DAYS * EVENTS
    keys = draws.key(0, user, np.arange(num))
    day = np.concatenate([np.full(BEFORE, -1), np.repeat(np.arange(DAYS), EVENTS)])
    before = -(1 + BEFORE // EVENTS) * draws.uniform(keys[:BEFORE], "time")
    within = day[BEFORE:] + draws.uniform(keys[BEFORE:], "time")
    event_us = (1000 * np.round(np.sort(np.concatenate([before, within])) * DAY_US / 1000)).astype(np.int64)
    late_us = (1e6 * 20 * draws.exponential(keys, "late")).astype(np.int64)
    ad = (ADS * draws.uniform(keys, "ad") ** 3).astype(np.int64)
    surface = draws.choice(keys, "surface", np.tile([0.55, 0.88, 1.0], (num, 1)))
    did = 1 + (draws.uniform(keys, "like") < 0.08) * 2 + (draws.uniform(keys, "click") < 0.03) * 512
    return {
        "day": day, "event_ts": event_us, "ingest_ts": event_us + late_us, "event_key": keys.view(np.int64),
        "ad_id": ad, "surface": surface, "source": (draws.uniform(keys, "ad slot") < 0.2).astype(np.int64),
        "actions": did, "value": np.round(np.exp(1.5 + 0.8 * draws.normal(keys, "dwell")), 1), "maker": ad // 40,
    }  # fmt: skip


def event_table(columns: dict[str, np.ndarray]) -> pa.Table:
    """Events with the types of the silver table."""
    time = pa.timestamp("us", tz="UTC")
    return pa.table(
        {
            "event_ts": pa.array(columns["event_ts"]).cast(time),
            "ingest_ts": pa.array(columns["ingest_ts"]).cast(time),
            "event_key": columns["event_key"], "ad_id": columns["ad_id"],
            "surface": pa.array(SURFACES).take(pa.array(columns["surface"])),
            "source": pa.array(SOURCES).take(pa.array(columns["source"])),
            "actions": pa.array(columns["actions"].astype(np.int32)),
            "value": pa.array(columns["value"].astype(np.float32)), "maker": columns["maker"],
        }
    )  # fmt: skip


def size_of(table: pa.Table, folder: Path, codec: str) -> int:
    """Bytes of a table as one Parquet file with dictionaries."""
    path = folder / "part.parquet"
    pq.write_table(table, path, compression=codec, use_dictionary=True)
    return path.stat().st_size


def ours(users: list[dict[str, np.ndarray]], folder: Path, codec: str) -> tuple[int, int]:
    """Bytes of `user_events` (history before the first day in one partition) and of the pointers of all examples."""
    events = 0
    for day in range(-1, DAYS):
        parts = []
        for user, columns in enumerate(users):
            rows = {name: values[columns["day"] == day] for name, values in columns.items()}
            table = event_table(rows)
            parts.append(table.add_column(0, "user_id", pa.array(np.full(table.num_rows, user))))
        events += size_of(pa.concat_tables(parts), folder, codec)
    pointers = 0
    for day in range(DAYS):
        at, user = zip(*((at, user) for user in range(len(users)) for at in impressions(user, day)), strict=True)
        pointer = pa.table(
            {"bucket": np.array(user, dtype=np.int32) % 4, "user_id": np.array(user),
             "impression_ts": pa.array(np.array(at)).cast(pa.timestamp("us", tz="UTC"))}
        )  # fmt: skip
        pointers += size_of(pointer, folder, codec)
    return events, pointers


def impressions(user: int, day: int) -> list[int]:
    """Times of a user's impressions on a day, in microseconds since day 0, in order."""
    moments = draws.uniform(draws.key(1, user, day, np.arange(IMPRESSIONS)), "impression")
    return sorted(((day + moments) * DAY_US).astype(np.int64).tolist())


def fat_rows(columns: dict[str, np.ndarray], user: int, length: int, day: int) -> pa.Table:
    """A user's fat rows of a day: each event column as a list."""
    table, visible = event_table(columns), np.maximum(columns["event_ts"] + 1, columns["ingest_ts"])
    windows = [np.flatnonzero(visible <= at)[-length:] for at in impressions(user, day)]
    offsets = pa.array(np.concatenate([[0], np.cumsum([len(w) for w in windows])]).astype(np.int32))
    flat = table.take(pa.array(np.concatenate(windows)))
    lists = {name: pa.ListArray.from_arrays(offsets, flat[name].combine_chunks()) for name in table.column_names}
    return pa.table({"user_id": np.full(len(windows), user), **lists})


def fat(users: list[dict[str, np.ndarray]], length: int, folder: Path, codec: str) -> int:
    """Bytes of the histories of all fat rows of `length` events, a partition a day; row groups as suits them best."""
    total = 0
    for day in range(DAYS):
        rows = [fat_rows(columns, user, length, day) for user, columns in enumerate(users)]
        alone = folder / "fat.parquet"
        with pq.ParquetWriter(alone, rows[0].schema, compression=codec, use_dictionary=True) as writer:
            for one in rows:
                writer.write_table(one)  # a row group a user
        total += min(alone.stat().st_size, size_of(pa.concat_tables(rows), folder, codec))
    return total


def lines(num_users: int) -> Iterator[dict[str, Any]]:
    """Ratios at every length and codec, and bytes an event on our side."""
    users = [user_events(user) for user in range(num_users)]
    shape = hashlib.sha256(repr((DAYS, IMPRESSIONS, EVENTS, BEFORE, num_users)).encode()).hexdigest()[:16]
    size = f"{num_users} users"
    with TemporaryDirectory(prefix="gem-storage-") as name:
        folder = Path(name)
        for codec in CODECS:
            events, pointers = ours(users, folder, codec)
            per_event = events / (num_users * (BEFORE + DAYS * EVENTS))
            about = {"config_hash": shape, "unit": "ratio", "baseline": f"fat-row table, {codec}"}
            yield line(
                "storage", "bytes_per_event", per_event, unit="bytes", size=f"{size}, {codec}", config_hash=shape
            )
            for length in LENGTHS:
                ratio = (events + pointers) / fat(users, length, folder, codec)
                reach = "" if length <= BEFORE else f" (no user has more than {BEFORE + DAYS * EVENTS} events)"
                label = f"{size}, {codec}{reach}"
                yield line("storage", f"bytes_over_fat_row_{length}", ratio, size=label, **about)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark and append its lines."""
    parser = argparse.ArgumentParser(prog="benchmarks.storage", description=__doc__)
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_USERS} users")
    parser.add_argument("--json", type=Path, required=True, metavar="FILE")
    options = parser.parse_args(arguments)
    append(options.json, lines(QUICK_USERS if options.quick else USERS))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
