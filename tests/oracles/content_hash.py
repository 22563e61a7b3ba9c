"""A hash of a table's content that neither the order of rows nor the last bits of floats move.

`python -m tests.oracles.content_hash` writes tests/golden/worlds.json anew; a change there needs a line in the
changelog, for the worlds are frozen.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import pyarrow as pa

from gem_pipeline.datasets.worlds import tables
from gem_pipeline.datasets.worlds.catalog import WORLDS
from gem_pipeline.datasets.worlds.population import all_days
from gem_pipeline.datasets.worlds.world import Scale

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "worlds.json"
SMALL = Scale(users=40, history_days=1, days=8)
DAY = 6  # ads and bids have changed by then in every world
TEN_SECONDS_US = 10_000_000


def coarse(value):
    """Floats to four significant digits, times to ten seconds."""
    if isinstance(value, list):
        return [coarse(each) for each in value]
    return f"{value:.3e}" if isinstance(value, float) else value


def content_hash(table: pa.Table) -> str:
    """Sum of the hashes of the rows, as 16 hexadecimal digits."""
    columns = []
    for name in table.column_names:
        column = table[name]
        if pa.types.is_timestamp(column.type):
            column = pa.chunked_array([pa.array(np.round(column.cast(pa.int64()).to_numpy() / TEN_SECONDS_US))])
        columns.append(map(coarse, column.to_pylist()))
    total = sum(
        int.from_bytes(hashlib.sha256(repr(row).encode()).digest()[:8], "little") for row in zip(*columns, strict=True)
    )
    return f"{total % 2**64:016x}"


def world_hashes(name: str, scale: Scale = SMALL) -> dict[str, str]:
    """Hash of each table of a small world."""
    world, date = WORLDS[name], all_days(scale)[DAY + scale.history_days]
    made = {
        "engagements": tables.organic_events(world, scale, 0, scale.users, DAY, date),
        "impressions": tables.logged_impressions(world, scale, 0, scale.users, DAY, date),
        "users": tables.user_rows(world, scale, 0, scale.users, DAY),
        "content": tables.content_rows(world, scale, 0),
    }
    return {table: content_hash(rows) for table, rows in made.items()}


if __name__ == "__main__":
    GOLDEN.write_text(json.dumps({name: world_hashes(name) for name in sorted(WORLDS)}, indent=1) + "\n")
