"""The quarantine: rows that a derivation left out, counted by reason, kept in a table, held against the limit."""

from collections.abc import Callable
from dataclasses import dataclass, field

from pyspark.sql import DataFrame

from gem_pipeline.contracts.contract import DataContract
from gem_pipeline.contracts.tables import Column, TableSchema
from gem_pipeline.errors import PartitionError
from gem_pipeline.quality.gate import CheckResult
from resources.lake import DeltaLake
from spark.judging import DUPLICATE, NO_FAULTS


@dataclass(frozen=True, kw_only=True, slots=True)
class LeftOut:
    """What a derivation leaves out.

    Attributes:
        source: the bronze table.
        judged: one row a source row: `date` and `fault` (null: valid), among others.
        rows: dates that hold copies of valid rows -> rows for the quarantine (date, reason, row).
        has_copies: valid rows may be copies, of which one is kept; then the kept ones say how many were left out,
            and only where some were are they looked for. False: `judged` names them already.
    """

    source: str
    judged: DataFrame
    rows: Callable[[tuple[str, ...]], DataFrame]
    has_copies: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class SourceCount:
    """Source rows of a date, and those of them that were left out, by reason."""

    num_rows: int = 0
    left_out: dict[str, int] = field(default_factory=dict)


def quarantine_table(table: str) -> TableSchema:
    """Rows that a derivation left out, with the reason."""
    names = ("date", "reason", "row")
    return TableSchema(
        name=f"quarantine/{table}",
        columns=tuple(Column(name=name, type="string") for name in names),
        partition_by=("date",),
        sort_by=("reason", "row"),
        key=("row",),
    )


def count_source(made: LeftOut | None, kept: dict[str, int], dates: tuple[str, ...]) -> dict[str, SourceCount]:
    """Count the source rows of each date by what became of them: one scan, no row leaves its place.

    Args:
        made: the rows left out; None: nothing is, and nothing is counted.
        kept: rows of each date that were derived.
        dates: the dates.

    Raises:
        PartitionError: a date has no source row at all.
    """
    if made is None:
        return {date: SourceCount() for date in dates}
    found: dict[str, dict[str | None, int]] = {date: {} for date in dates}
    for row in made.judged.groupBy("date", "fault").count().collect():
        found[row["date"]][row["fault"]] = int(row["count"])
    counts = {}
    for date, by_fault in found.items():
        num_rows, valid = sum(by_fault.values()), by_fault.get(None, 0)
        left_out = dict(sorted((str(r), n) for r, n in by_fault.items() if r is not None))
        if made.has_copies:
            if not num_rows:
                raise PartitionError(
                    f"Table {made.source} has 0 rows for date {date}; at least 1 is needed.",
                    remedy="Land the date's rows first.",
                )
            if copies := valid - kept.get(date, 0):
                left_out[DUPLICATE] = copies
        counts[date] = SourceCount(num_rows=num_rows, left_out=left_out)
    return counts


def keep_left_out(lake: DeltaLake, made: LeftOut, table: str, counts: dict[str, SourceCount]) -> None:
    """Replace the quarantine of each date by the rows that were left out; nothing is written where there are none."""
    schema = quarantine_table(table)
    there = lake.fingerprints(schema.name)
    touched = tuple(date for date, count in counts.items() if count.left_out or date in there)
    if not touched:
        return
    lake.ensure_table(schema)
    with_copies = tuple(d for d, count in counts.items() if made.has_copies and DUPLICATE in count.left_out)
    staged = lake.stage(made.rows(with_copies), schema, touched)
    try:
        lake.publish(staged, touched, {"quarantined": {date: counts[date].left_out for date in touched}})
    finally:
        lake.discard(staged)


def share_check(contract: DataContract, table: str, count: SourceCount) -> CheckResult:
    """Whether few enough of a date's source rows were left out for a fault."""
    faults = {reason: n for reason, n in count.left_out.items() if reason not in NO_FAULTS}
    total, limit = sum(faults.values()), contract.quality.share_of(table)
    share = total / count.num_rows if count.num_rows else 0.0
    said = ", ".join(f"{reason}: {n}" for reason, n in faults.items()) or "none"
    return CheckResult(
        name="quarantined_share",
        passed=share <= limit,
        observed=f"{share:.4f} of {count.num_rows} rows, at most {limit:g} ({said})",
        unexpected_count=total,
    )
