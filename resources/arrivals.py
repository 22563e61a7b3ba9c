"""Which bronze partitions there are, and a fingerprint of each; told from files, without Spark."""

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.dataset as ds
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from gem_pipeline.contracts.contract import DataContract, TableRef
from gem_pipeline.datasets.landing import LandedPartition, land_partitions, table_path
from gem_pipeline.datasets.worlds.log import WorldLog
from gem_pipeline.errors import PartitionError
from gem_pipeline.quality.gate import partition_files
from resources.settings import GemSettings

if TYPE_CHECKING:
    from resources.worlds import WorldLanding


def bronze_fingerprints(settings: GemSettings) -> dict[str, str]:
    """Fingerprint of every date that has landed, oldest first; a change of any fact table of the date changes it."""
    contract, source = settings.load_contract(), settings.source()
    if source is not None:
        found = {date: source.fingerprint(date) for date in source.days()}
    else:
        found = _table_fingerprints(contract, settings.home_path() / "lake")
    rule = contract.partition
    wanted = [date for date in found if rule.first_day <= date and (rule.last_day is None or date <= rule.last_day)]
    return {date: found[date] for date in sorted(wanted)}


def days_without_impressions(settings: GemSettings, dates: Iterable[str]) -> set[str]:
    """Those of some landed dates that are only history so far: events, but no impressions to learn from."""
    source = settings.source()
    if source is not None:
        return {date for date in dates if not source.has_impressions(date)}
    contract = settings.load_contract()
    timed = _partitions(contract.tables.impressions, settings.home_path() / "lake", contract.partition.column)
    return set(dates) - set(timed)


def land_or_find(settings: GemSettings, dates: Sequence[str]) -> list[LandedPartition]:
    """Land the bronze partitions of some dates; the user's own tables are only looked at.

    Raises:
        PartitionError: a date is missing.
    """
    contract, source = settings.load_contract(), settings.source()
    if isinstance(source, WorldLog):
        return world_landing(settings, contract, source).land(tuple(dates))
    if source is not None:
        return land_partitions(contract, source, settings.home_path(), tuple(dates))
    found = _table_fingerprints(contract, settings.home_path() / "lake")
    if missing := sorted(set(dates) - set(found)):
        raise PartitionError(
            f"Tables {contract.tables.impressions.path} and {contract.tables.engagements.path} have no partition "
            f"{', '.join(missing)}.",
            remedy="Refresh the dates that have landed, or wait for these.",
        )
    return [
        LandedPartition(
            date=date, num_impressions=-1, num_engagements=-1, version=-1, fingerprint=found[date], unchanged=True
        )
        for date in dates
    ]


def world_landing(settings: GemSettings, contract: DataContract, world: WorldLog) -> "WorldLanding":
    """What generates and lands a simulated world; Spark starts when a day has to be generated."""
    from resources.spark_session import local_session
    from resources.worlds import WorldLanding

    home = settings.home_path()
    return WorldLanding(contract=contract, log=world, home=home, spark_provider=lambda: local_session(home))


def _table_fingerprints(contract: DataContract, lake: Path) -> dict[str, str]:
    column = contract.partition.column
    impressions = _partitions(contract.tables.impressions, lake, column)
    engagements = _partitions(contract.tables.engagements, lake, column)
    conversions = _partitions(contract.tables.conversions, lake, column) if contract.tables.conversions else {}
    return {
        date: hashlib.sha256(
            f"{impressions.get(date)}-{engagements.get(date)}-{conversions.get(date)}".encode()
        ).hexdigest()[:16]
        for date in sorted({*impressions, *engagements})
    }


def _partitions(ref: TableRef, lake: Path, column: str) -> dict[str, str]:
    """Fingerprint of each day of a table: of the paths and sizes of its files."""
    path = table_path(ref, lake)
    if ref.format == "delta":
        try:
            return {date: files.fingerprint for date, files in partition_files(DeltaTable(path), column).items()}
        except TableNotFoundError:
            return {}
    groups: dict[str, list[tuple[str, int]]] = {}
    for fragment in ds.dataset(path, format="parquet", partitioning="hive").get_fragments():
        date = str(ds.get_partition_keys(fragment.partition_expression)[column])
        groups.setdefault(date, []).append((fragment.path, fragment.metadata.serialized_size))
    return {date: hashlib.sha256(repr(sorted(files)).encode()).hexdigest()[:16] for date, files in groups.items()}
