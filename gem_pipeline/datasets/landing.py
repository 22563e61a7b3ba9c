"""Land a log source as bronze Delta tables, day by day, atomically and only when something changed."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import TableNotFoundError

from gem_pipeline.atomic import write_json
from gem_pipeline.contracts.contract import DataContract, TableRef
from gem_pipeline.datasets.generated import GeneratedLog
from gem_pipeline.datasets.kuairand import KuaiRand
from gem_pipeline.datasets.source import LogCalendar, LogSource
from gem_pipeline.datasets.worlds.log import WorldLog
from gem_pipeline.errors import PartitionError

GENERATED = "generated"  # value of GEM_DATA that asks for the generated log; `generated:1500` sets its rows a day


@dataclass(frozen=True, kw_only=True, slots=True)
class LandedPartition:
    """A day of bronze facts.

    Attributes:
        version: Delta version of the impressions table after the landing.
        fingerprint: identity of the source's content for the day.
        unchanged: the day was already there with the same content.
    """

    date: str
    num_impressions: int
    num_engagements: int
    version: int
    fingerprint: str
    unchanged: bool


def open_source(contract: DataContract, data: str | None, default: Path) -> LogSource | WorldLog | None:
    """Choose the log source.

    Args:
        contract: decides between an adapter and the user's own tables.
        data: folder the user named, `generated` or `generated:<rows a day>`, or None for the default folder.
        default: folder tried when the user named none; where it is missing the generated log is used.

    Returns:
        The source, or None where the contract reads tables of the user's own.

    Raises:
        DataSourceError: a folder that the user named is missing.
        ConfigError: the contract's world is impossible.
    """
    if contract.source == "tables":
        return None
    if contract.source == "world":
        return WorldLog.of(contract)
    if data == GENERATED:
        return GeneratedLog()
    if data is not None and re.fullmatch(rf"{GENERATED}:\d{{1,7}}", data):
        return GeneratedLog(rows_a_day=int(data.partition(":")[2]))
    if data is not None:
        folder = Path(data)
        return KuaiRand(folder / "kuairand" if (folder / "kuairand").is_dir() else folder)
    return KuaiRand(default / "kuairand") if (default / "kuairand").is_dir() else GeneratedLog()


def table_path(table: TableRef, lake: Path) -> str:
    """Where a bronze table lies: absolute or remote as written, else under the lake."""
    return table.path if "://" in table.path or Path(table.path).is_absolute() else str(lake / table.path)


def available_dates(contract: DataContract, source: LogCalendar | None, lake: Path) -> tuple[str, ...]:
    """Dates that can be landed or are there already, oldest first, none before the contract's first day."""
    if source is not None:
        days = source.days()
    else:
        table = DeltaTable(table_path(contract.tables.impressions, lake))
        days = tuple(sorted({str(p[contract.partition.column]) for p in table.partitions()}))
    return tuple(day for day in days if day >= contract.partition.first_day)


def land_partitions(
    contract: DataContract, source: LogSource, home: Path, dates: tuple[str, ...]
) -> list[LandedPartition]:
    """Write the bronze partitions of `dates`, and the dimensions, where the source's content changed.

    Every table of a day is replaced by one atomic commit; the marker of the day is written last, so a
    killed landing is simply run again.

    Raises:
        PartitionError: the source does not have one of the dates.
    """
    if missing := sorted(set(dates) - set(source.days())):
        raise PartitionError(
            f"The {source.name} log has no rows for {', '.join(missing)}.",
            remedy=f"Choose dates between {source.days()[0]} and {source.days()[-1]}.",
        )
    lake = home / "lake"
    _land_dimensions(contract, source, lake, home)
    return [_land_day(contract, source, lake, home, date) for date in dates]


def _land_day(contract: DataContract, source: LogSource, lake: Path, home: Path, date: str) -> LandedPartition:
    fingerprint = f"{source.name}-{source.fingerprint(date)}"
    facts = (contract.tables.impressions, contract.tables.engagements)
    known = landed_before(home, date, fingerprint)
    if known is not None and DeltaTable.is_deltatable(table_path(facts[1], lake)):
        return known
    tables = source.impressions(date), source.engagements(date)
    versions = [
        _replace(table_path(ref, lake), rows, contract.partition.column, date)
        for ref, rows in zip(facts, tables, strict=True)
    ]
    landed = LandedPartition(
        date=date, num_impressions=tables[0].num_rows, num_engagements=tables[1].num_rows,
        version=versions[0], fingerprint=fingerprint, unchanged=False,
    )  # fmt: skip
    mark_landed(home, landed)
    return landed


def landed_before(home: Path, date: str, fingerprint: str) -> LandedPartition | None:
    """The day's landing, if it was finished with the same content."""
    marker = home / "landed" / f"{date}.json"
    if not marker.exists():
        return None
    known: dict[str, Any] = json.loads(marker.read_text())
    return LandedPartition(**known | {"unchanged": True}) if known["fingerprint"] == fingerprint else None


def mark_landed(home: Path, landed: LandedPartition) -> None:
    """Say that a day is complete; the last step of a landing."""
    write_json(home / "landed" / f"{landed.date}.json", asdict(landed))


def _land_dimensions(contract: DataContract, source: LogSource, lake: Path, home: Path) -> None:
    marker = home / "landed" / "dimensions.json"
    fingerprint = f"{source.name}-{source.fingerprint('dimensions')}"
    if marker.exists() and json.loads(marker.read_text())["fingerprint"] == fingerprint:
        return
    for ref, rows in ((contract.tables.users, source.users()), (contract.tables.ads, source.ads())):
        write_deltalake(table_path(ref, lake), rows, mode="overwrite", schema_mode="overwrite")
    write_json(marker, {"fingerprint": fingerprint})


def _replace(path: str, rows: pa.Table, column: str, date: str) -> int:
    """Replace one day of a fact table by one commit; -1 is the version of a table that has no rows yet."""
    this_day = f"{column} = '{date}'"
    try:
        table = DeltaTable(path)
    except TableNotFoundError:
        if not rows.num_rows:
            return -1  # an empty frame has no types to create a table from
        write_deltalake(path, rows, partition_by=[column])
    else:
        if rows.num_rows:
            write_deltalake(table, rows, mode="overwrite", predicate=this_day)
        else:
            table.delete(this_day)
    return DeltaTable(path).version()
