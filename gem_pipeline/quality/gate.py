"""Gates: a marker a date partition, that training verifies before it reads.

A marker says which files of a partition passed which suite under which contract. It is checked without
Spark, against the files that are active now: data that changed after its validation has no gate.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from gem_pipeline.atomic import write_json
from gem_pipeline.contracts.contract import DataContract
from gem_pipeline.errors import GateError

Severity = Literal["ERROR", "WARN"]


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckResult:
    """The outcome of one rule.

    Attributes:
        name: rule, and the column where it has one.
        passed: a rule that could not be computed has not passed.
        severity: `WARN` never blocks.
        observed: what was seen, in words or as a number.
        unexpected_count: rows that broke the rule; None where rows are not counted.
        column: the column judged; None: the table.
    """

    name: str
    passed: bool
    severity: Severity = "ERROR"
    observed: str | float | int | None = None
    unexpected_count: int | None = None
    column: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class GateMarker:
    """What was validated, and how it went.

    Attributes:
        delta_version: version of the table whose commit wrote the partition.
        partition_fingerprint: of the paths and sizes of the partition's active files.
        content_hash: of the rows, whatever their order and files; downstream fingerprints use it.
        input_fingerprint: of everything the partition was derived from.
        suite_hash: of the rules.
        quarantined: rows left out, by reason.
        written_at: UTC, ISO 8601.
    """

    table: str
    date: str
    delta_version: int
    partition_fingerprint: str
    content_hash: str
    input_fingerprint: str
    contract_hash: str
    suite_hash: str
    num_rows: int
    passed: bool
    checks: tuple[CheckResult, ...]
    quarantined: dict[str, int]
    written_at: str


@dataclass(frozen=True, kw_only=True, slots=True)
class PartitionFiles:
    """The active files of a partition: their fingerprint and rows (None: not recorded)."""

    fingerprint: str
    num_rows: int | None


def partition_files(delta: DeltaTable, column: str) -> dict[str, PartitionFiles]:
    """Group the active files of a Delta table by one partition column; no data is read."""
    actions = pa.table(delta.get_add_actions(flatten=True))
    names = [
        name for name in ("path", "size_bytes", "num_records", f"partition.{column}") if name in actions.column_names
    ]
    groups: dict[str, list[dict[str, object]]] = {}
    for action in actions.select(names).to_pylist():
        groups.setdefault(str(action[f"partition.{column}"]), []).append(action)
    found: dict[str, PartitionFiles] = {}
    for value, files in sorted(groups.items()):
        listed = sorted((str(file["path"]), int(str(file["size_bytes"]))) for file in files)
        counts = [file.get("num_records") for file in files]
        known = all(count is not None for count in counts)
        found[value] = PartitionFiles(
            fingerprint=hashlib.sha256(repr(listed).encode()).hexdigest()[:16],
            num_rows=sum(int(str(count)) for count in counts) if known else None,
        )
    return found


def marker_path(home: Path, table: str, date: str) -> Path:
    """Where the gate marker of a partition lies."""
    return home / "gates" / table / f"{date}.json"


def write_gate(home: Path, marker: GateMarker) -> None:
    """Write a marker atomically: readers see the old or the new one."""
    write_json(marker_path(home, marker.table, marker.date), asdict(marker))


def read_gate(home: Path, table: str, date: str) -> GateMarker | None:
    """The marker of a partition; None where there is none or it cannot be understood."""
    try:
        document = json.loads(marker_path(home, table, date).read_text(encoding="utf-8"))
        checks = tuple(CheckResult(**check) for check in document.pop("checks"))
        return GateMarker(**document, checks=checks)
    except (OSError, ValueError, TypeError, KeyError):
        return None


def verify_gate(home: Path, lake_root: str | Path, table: str, date: str, contract: DataContract) -> GateMarker:
    """Return the marker of a partition whose active files are exactly those that passed validation.

    Raises:
        GateError: the partition was never validated, failed, was validated under another contract, or
            has changed since.
    """
    from gem_pipeline.quality.suites import suite_hash

    remedy = f"Materialise {table} for {date} again; it is validated before it is published."
    marker = read_gate(home, table, date)
    if marker is None:
        raise GateError(f"Table {table}, date {date}, has no quality gate.", remedy=remedy)
    if not marker.passed:
        failed = ", ".join(check.name for check in marker.checks if not check.passed and check.severity == "ERROR")
        raise GateError(f"Table {table}, date {date}, failed its quality gate: {failed}.", remedy=remedy)
    if marker.contract_hash != contract.content_hash or marker.suite_hash != suite_hash(contract, table):
        raise GateError(f"Table {table}, date {date}, was validated under another contract.", remedy=remedy)
    try:
        files = partition_files(DeltaTable(f"{lake_root}/{table}"), "date").get(date)
    except TableNotFoundError as error:
        raise GateError(f"Table {table} does not exist in {lake_root}.", remedy=remedy) from error
    if (files.fingerprint if files else "") != marker.partition_fingerprint:
        raise GateError(f"Table {table}, date {date}, has changed since it was validated.", remedy=remedy)
    return marker


def gate_error(failed: list[GateMarker]) -> GateError:
    """The error that says which rules some dates of a table failed."""
    parts = []
    for marker in failed:
        broken = [c for c in marker.checks if not c.passed and c.severity == "ERROR"]
        rules = ", ".join(c.name + _observed(c) for c in broken)
        parts.append(f"{marker.date}: {rules}")
    return GateError(
        f"Table {failed[0].table} failed its quality gate and was not published for {'; '.join(parts)}.",
        remedy="Mend the source rows and materialise these dates again; data docs show the rules.",
    )


def _observed(check: CheckResult) -> str:
    if check.name == "quarantined_share":
        return f" ({check.observed})"
    return f" ({check.unexpected_count} rows)" if check.unexpected_count else ""
