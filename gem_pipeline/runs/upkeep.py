"""Upkeep of the lake: file sizes, compaction where it helps, old files removed but for what models need. Ours.

A version that a stored model names stays readable for as long as the model is stored, so that its training rows
can be rebuilt; a file is removed only when no such version, and no version younger than the retention, uses it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable

from gem_pipeline.contracts.tables import VECTOR_TABLES
from gem_pipeline.errors import ConfigError

GATED = ("user_events", "counter_increments", "examples", *VECTOR_TABLES, "attributed_conversions")
QUARANTINE = "quarantine"  # folder of the tables of rows that were left out
MEGABYTE = 1 << 20


@dataclass(frozen=True, kw_only=True, slots=True)
class UpkeepPolicy:
    """What upkeep may do.

    Attributes:
        retention_days: files that no version of the last so many days uses may go.
        compact_files: a partition with more files than this is compacted. Never those of gated tables: they are
            written as one file a partition, and their gates name exactly these files.
        target_mb: size of a compacted file.
        dry_run: say what would be done, and do nothing.
    """

    retention_days: int = 30
    compact_files: int = 4
    target_mb: int = 128
    dry_run: bool = False

    def __post_init__(self) -> None:
        """Check the rules above."""
        if self.retention_days < 1 or self.compact_files < 1 or self.target_mb < 1:
            raise ConfigError(
                f"Upkeep cannot work with {self}.",
                remedy="Set retention_days, compact_files and target_mb to 1 or more.",
            )


@dataclass(frozen=True, kw_only=True, slots=True)
class TableUpkeep:
    """One table after its upkeep.

    Attributes:
        version: newest version.
        pinned: versions that stored models name.
        num_files: active files.
        num_bytes: their bytes.
        largest_partition_files: files of the partition that has most.
        compacted_files: files that compaction merged away.
        removed_files: files deleted (in a dry run: that would be).
    """

    table: str
    version: int
    pinned: tuple[int, ...]
    num_files: int
    num_bytes: int
    largest_partition_files: int
    compacted_files: int
    removed_files: int

    @property
    def mean_file_mb(self) -> float:
        """Mean size of an active file in MiB."""
        return self.num_bytes / max(1, self.num_files) / MEGABYTE


def pinned_versions(home: Path) -> dict[str, tuple[int, ...]]:
    """Versions of each table that stored models were trained on, oldest first."""
    found: dict[str, set[int]] = {}
    for path in sorted((home / "models").glob("**/config.json")):
        for table, version in json.loads(path.read_text(encoding="utf-8")).get("inputs", {}).items():
            found.setdefault(table, set()).add(int(version))
    return {table: tuple(sorted(versions)) for table, versions in found.items()}


def delta_tables(lake: Path) -> Iterator[str]:
    """Every Delta table under the lake's root, by its path from there."""
    for log in sorted(lake.glob("**/_delta_log")):
        yield log.parent.relative_to(lake).as_posix()


def keep_up(home: Path, policy: UpkeepPolicy, *, only: tuple[str, ...] = ()) -> list[TableUpkeep]:
    """Compact and clean every table of a home's lake. Running it again at once changes nothing.

    Args:
        home: folder of all state.
        policy: what may be done.
        only: tables; empty: all of them.
    """
    pinned = pinned_versions(home)
    chosen = [name for name in delta_tables(home / "lake") if not only or name in only]
    return [_keep_up(home / "lake" / name, name, pinned.get(name, ()), policy) for name in chosen]


def _keep_up(path: Path, name: str, pinned: tuple[int, ...], policy: UpkeepPolicy) -> TableUpkeep:
    table = DeltaTable(str(path))
    if not policy.dry_run:
        _keep_log(table)
    merged = 0
    if name not in GATED and not policy.dry_run and _most_files(table) > policy.compact_files:
        merged = int(table.optimize.compact(target_size=policy.target_mb * MEGABYTE)["numFilesRemoved"])
        table = DeltaTable(str(path))
    removed = table.vacuum(
        retention_hours=24 * policy.retention_days, dry_run=policy.dry_run, enforce_retention_duration=False,
        keep_versions=[*pinned, table.version()], full=_is_staged(name),
    )  # fmt: skip
    table = DeltaTable(str(path))
    sizes = pa.table(table.get_add_actions(flatten=True))["size_bytes"].to_pylist()
    return TableUpkeep(
        table=name, version=table.version(), pinned=pinned, num_files=len(sizes), num_bytes=sum(sizes),
        largest_partition_files=_most_files(table), compacted_files=merged, removed_files=len(removed),
    )  # fmt: skip


def _is_staged(name: str) -> bool:
    """Whether a table's rows are written before a version names them, so that a killed run leaves files behind."""
    return name in GATED or name.startswith(f"{QUARANTINE}/")


def _keep_log(table: DeltaTable) -> None:
    """Keep the log of old versions: time travel to a pinned version needs it."""
    wanted = {"delta.enableExpiredLogCleanup": "false"}
    if not wanted.items() <= table.metadata().configuration.items():
        table.alter.set_table_properties(wanted)


def _most_files(table: DeltaTable) -> int:
    """Files of the partition that has most of them."""
    actions = pa.table(table.get_add_actions(flatten=True))
    keys = [name for name in actions.column_names if name.startswith("partition.")]
    if not actions.num_rows:
        return 0
    if not keys:
        return actions.num_rows
    return int(max(actions.group_by(keys).aggregate([("path", "count")])["path_count"].to_pylist()))
