"""Silver tables of any contract, drawn at random without Spark: many users, a few of them very active, some new."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from deltalake import write_deltalake

from gem_pipeline.contracts import tables
from gem_pipeline.contracts.contract import DataContract

LAST_DAY = np.datetime64("2022-06-01", "D")
DAY_US = 86_400_000_000


@dataclass(frozen=True, kw_only=True, slots=True)
class LakeShape:
    """How much to draw.

    Attributes:
        users: users with examples; the last fifth of them has no event.
        events: events of an ordinary user over all days.
        heavy_users: users with `heavy_events` events instead.
        heavy_events: events of such a user.
        examples: impressions a user on the last day.
        days: date partitions of events, the last one that of the examples.
        request: impressions of a user at the same time; it divides `examples`.
    """

    users: int = 1000
    events: int = 500
    heavy_users: int = 5
    heavy_events: int = 100_000
    examples: int = 8
    days: int = 30
    request: int = 1

    @property
    def num_events(self) -> int:
        """Events of all users."""
        return self.heavy_users * self.heavy_events + (self.users * 4 // 5 - self.heavy_users) * self.events


def write_lake(contract: DataContract, lake: Path, shape: LakeShape, *, seed: int = 0) -> str:
    """Write `user_events` and one day of `examples`; returns its date."""
    rng = np.random.default_rng(seed)
    events = np.full(shape.users, shape.events)
    events[: shape.heavy_users] = shape.heavy_events
    events[shape.users * 4 // 5 :] = 0
    _write(lake, tables.user_events(contract), _event_columns(contract, rng, np.repeat(np.arange(shape.users), events),
                                                              shape.days))  # fmt: skip
    user_N = np.repeat(np.arange(shape.users), shape.examples)
    _write(lake, tables.examples(contract), _example_columns(contract, rng, user_N, shape.request))
    return str(LAST_DAY)


def _write(lake: Path, schema: tables.TableSchema, columns: dict[str, np.ndarray | pa.Array]) -> None:
    arrow = schema.arrow()
    arrays = [pa.array(columns[name]).cast(arrow.field(name).type) for name in schema.column_names]
    rows = pa.Table.from_arrays(arrays, schema=arrow)
    order = [(name, "ascending") for name in (*schema.partition_by, *schema.sort_by)]
    write_deltalake(lake / schema.name, rows.sort_by(order), partition_by=list(schema.partition_by))


def _times(rng: np.random.Generator, size: int, days: int) -> np.ndarray:
    end = (LAST_DAY + 1).astype("datetime64[us]").astype(np.int64)
    return end - 1 - rng.integers(0, days * DAY_US, size)


def _utc(time_N: np.ndarray) -> pa.Array:
    return pa.array(time_N).cast(pa.timestamp("us", tz="UTC"))


def _event_columns(
    contract: DataContract, rng: np.random.Generator, user_N: np.ndarray, days: int
) -> dict[str, np.ndarray | pa.Array]:
    size, time_N = len(user_N), _times(rng, len(user_N), days)
    columns = {
        "date": time_N.astype("datetime64[us]").astype("datetime64[D]").astype(str),
        "bucket": user_N % contract.visibility.user_buckets,
        "user_id": user_N,
        "event_ts": _utc(time_N),
        "ingest_ts": _utc(time_N + rng.integers(0, 60_000_000, size)),  # arrives within a minute: order is mixed
        "event_key": rng.integers(0, 2**62, size),
        "ad_id": rng.zipf(1.3, size) % 50_000,
        "surface": rng.choice(contract.surfaces, size),
        "source": rng.choice(contract.sequence.sources, size),
        "actions": rng.integers(0, 1 << len(contract.sequence.kinds), size),
        "value": rng.gamma(2, 10, size),
    }
    return columns | {a.name: rng.integers(0, 5000, size) for a in contract.sequence.attributes}


def _example_columns(
    contract: DataContract, rng: np.random.Generator, user_N: np.ndarray, request: int
) -> dict[str, np.ndarray | pa.Array]:
    size = len(user_N)
    columns: dict[str, np.ndarray | pa.Array] = {
        "date": np.full(size, str(LAST_DAY)),
        "bucket": user_N % contract.visibility.user_buckets,
        "user_id": user_N,
        "impression_ts": _utc(np.repeat(_times(rng, size // request, 1), request)),
        "impression_id": np.arange(size).astype(str),
        "ad_id": rng.zipf(1.3, size) % 50_000,
        "surface": rng.choice(contract.surfaces, size),
    }
    for feature in contract.features:
        if tables.is_event_attribute(contract, feature):
            columns[feature.name] = rng.integers(0, 5000, size)
        elif feature.kind == "categorical":
            columns[feature.name] = rng.integers(0, 20, size).astype(str)
        elif feature.kind == "multi_hot":
            columns[feature.name] = pa.array([[str(word)] for word in rng.integers(0, 60, size)])
        elif feature.kind in ("bucketed", "dense"):
            columns[feature.name] = rng.gamma(2, 10, size)
    for counter in contract.counters.groups:
        columns[tables.count_column(counter.name)] = rng.integers(30, 60, size)
        for kind in counter.kinds:
            columns[tables.count_column(counter.name, kind)] = rng.integers(0, 30, size)
    for objective in contract.column_objectives:
        columns[tables.label_column(objective.name)] = (rng.random(size) < 0.3).astype(np.int8)
    return columns
