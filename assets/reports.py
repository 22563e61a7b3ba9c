"""What the assets tell: numbers, tables and plots a partition, data versions, and the outcome of quality gates."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import dagster as dg

from gem_pipeline.contracts.conversions import days_before
from gem_pipeline.contracts.tables import ALL_DAYS, VECTOR_TABLES
from gem_pipeline.errors import GateError
from gem_pipeline.quality.gate import GateMarker, read_gate
from resources.plots import bars
from resources.settings import GemSettings

if TYPE_CHECKING:
    from resources.derivation import PublishedPartition

    Judged = PublishedPartition | GateMarker

GATE, WARNINGS = "quality_gate", "quality_warnings"


def gate_specs(table: str) -> list[dg.AssetCheckSpec]:
    """The checks of a derived table; rules that block are told apart from those that warn."""
    return [
        dg.AssetCheckSpec(GATE, asset=table, blocking=True, description="Rules that must hold before publication."),
        dg.AssetCheckSpec(WARNINGS, asset=table, description="Rules that warn and never block."),
    ]


def data_version(fingerprints: Mapping[str, str]) -> dg.DataVersion:
    """The fingerprint of one partition, or of all partitions of a run together."""
    if len(fingerprints) == 1:
        return dg.DataVersion(next(iter(fingerprints.values())))
    return dg.DataVersion(data_version_of(sorted(fingerprints.items())))


def data_version_of(*parts: object) -> str:
    """A fingerprint of plain values."""
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def materialized(
    context: dg.AssetExecutionContext,
    key: str,
    fingerprints: Mapping[str, str],
    metadata: Mapping[str, Mapping[str, Any]],
) -> dg.MaterializeResult:
    """Attach each partition's own metadata, and its fingerprint, to its materialization."""
    for partition, fingerprint in fingerprints.items():
        own = {"fingerprint": fingerprint, **metadata[partition]}
        context.add_asset_metadata(own, asset_key=key, partition_key=partition)
    return dg.MaterializeResult(asset_key=key, data_version=data_version(fingerprints))


def derived(
    context: dg.AssetExecutionContext,
    settings: GemSettings,
    table: str,
    derive: Callable[[Sequence[str]], Sequence["PublishedPartition"]],
) -> Iterator[dg.AssetCheckResult | dg.MaterializeResult]:
    """Derive the dates of a run and report them: the outcome of the gates first, then the materializations.

    Raises:
        GateError: a date failed and was not published; which rules failed is reported before.
    """
    partitions: list[PublishedPartition] = []
    yield from _judged(settings, table, lambda: derive(context.partition_keys), partitions, context.partition_keys)
    metadata = {p.date: _numbers(p) | {"dagster/uri": settings.table_uri(table)} for p in partitions}
    yield materialized(context, table, {p.date: p.fingerprint for p in partitions}, metadata)


def credited(
    context: dg.AssetExecutionContext,
    settings: GemSettings,
    derive: Callable[[Sequence[str]], Sequence["PublishedPartition"]],
) -> Iterator[dg.AssetCheckResult | dg.MaterializeResult]:
    """Derive what the conversions of a run's dates touch, and report it under the dates on which they arrived.

    The data version of a date is that of every partition up to it that its arrivals may have touched. Raises as
    `derived`.
    """
    table, reach = "attributed_conversions", settings.load_contract().conversion_reach_days
    partitions: list[PublishedPartition] = []
    gates = [path.stem for path in (settings.home_path() / "gates" / table).glob("*.json")]
    yield from _judged(settings, table, lambda: derive(context.partition_keys), partitions, gates)
    versions, metadata = {}, {}
    for date in context.partition_keys:
        touched = [p for p in partitions if days_before(date, reach) <= p.date <= date]
        versions[date] = data_version_of([(p.date, p.fingerprint) for p in touched])
        own = next((p for p in touched if p.date == date), None)
        metadata[date] = _numbers(own) if own else {"state": "no objective of the contract is a conversion"}
        metadata[date] |= {"partitions_touched": len(touched), "dagster/uri": settings.table_uri(table)}
    yield materialized(context, table, versions, metadata)


def in_force(
    settings: GemSettings, asset: str, derive: Callable[[], Sequence["PublishedPartition"]]
) -> Iterator[dg.AssetCheckResult | dg.MaterializeResult]:
    """Derive the tables of an asset that belong to no day, and report all of them as one.

    Raises:
        GateError: a table failed and was not published; which rules failed is reported before.
    """
    try:
        found = derive()
    except GateError:
        markers = [read_gate(settings.home_path(), table, ALL_DAYS) for table in VECTOR_TABLES]
        yield from _outcome(asset, [marker for marker in markers if marker is not None and not marker.passed])
        raise
    yield from _outcome(asset, found)
    metadata: dict[str, Any] = {"state": "the contract has none"} if not found else {}
    for one in found:
        own = {
            "rows": one.num_rows,
            "delta_version": one.delta_version,
            "unchanged": one.unchanged,
            "quarantine": dg.MetadataValue.json(dict(one.quarantined)),
            "uri": settings.table_uri(one.table),
        }
        metadata |= {f"{one.table}/{name}": value for name, value in own.items()}
    version = dg.DataVersion(data_version_of([(one.table, one.fingerprint) for one in found]))
    yield dg.MaterializeResult(asset_key=asset, data_version=version, metadata=metadata)


def _judged(
    settings: GemSettings, table: str, derive: Callable[[], Sequence["PublishedPartition"]],
    partitions: list["PublishedPartition"], dates: Iterable[str],
) -> Iterator[dg.AssetCheckResult]:  # fmt: skip
    """Derive into `partitions` and report the gates; where it fails, those of `dates` that failed, then raise."""
    try:
        partitions.extend(derive())
    except GateError:
        markers = [marker for date in sorted(dates) if (marker := read_gate(settings.home_path(), table, date))]
        yield from _outcome(table, [marker for marker in markers if not marker.passed])
        raise
    yield from _outcome(table, partitions)


def _outcome(table: str, judged: Sequence["Judged"]) -> Iterator[dg.AssetCheckResult]:
    yield _check(table, GATE, judged, dg.AssetCheckSeverity.ERROR)
    yield _check(table, WARNINGS, judged, dg.AssetCheckSeverity.WARN)


def _numbers(partition: "PublishedPartition") -> dict[str, Any]:
    rates = {name.removeprefix("rate__"): value for name, value in partition.stats.items() if name.startswith("rate__")}
    counts = {name: value for name, value in partition.stats.items() if not name.startswith("rate__")}
    shown, unit = (rates, "rate") if rates else ({"rows": partition.num_rows} | counts, "count")  # one axis, one unit
    return counts | {
        "plot": bars(shown, title=f"{partition.table} {partition.date}", unit=unit),
        "dagster/row_count": partition.num_rows,
        "delta_version": partition.delta_version,
        "seconds": round(partition.seconds, 2),
        "unchanged": partition.unchanged,
        "quarantined_rows": sum(partition.quarantined.values()),
        "quarantine": dg.MetadataValue.json(dict(partition.quarantined)),
        "checks": rules_table((partition,)),
    }


def _check(
    table: str, name: str, partitions: Sequence["Judged"], severity: dg.AssetCheckSeverity
) -> dg.AssetCheckResult:
    rules = [check for p in partitions for check in p.checks if check.severity == severity.value]
    return dg.AssetCheckResult(
        asset_key=table,
        check_name=name,
        passed=all(rule.passed for rule in rules),
        severity=severity,
        metadata={"rules": len(rules), "failed": sum(not rule.passed for rule in rules),
                  "table": rules_table(partitions, severity.value)},
    )  # fmt: skip


def rules_table(partitions: Sequence["Judged"], severity: str | None = None) -> dg.TableMetadataValue:
    """Every rule of some partitions, failed ones first."""
    rows = [(p.date, rule) for p in partitions for rule in p.checks if severity in (None, rule.severity)]
    rows.sort(key=lambda row: (row[1].passed, row[0]))
    return dg.MetadataValue.table([
        dg.TableRecord({
            "date": day, "rule": rule.name, "column": rule.column or "", "passed": rule.passed,
            "severity": rule.severity, "observed": "" if rule.observed is None else str(rule.observed),
            "unexpected": -1 if rule.unexpected_count is None else rule.unexpected_count,
        })
        for day, rule in rows
    ], schema=dg.TableSchema([
        dg.TableColumn("date"), dg.TableColumn("rule"), dg.TableColumn("column"), dg.TableColumn("passed", "bool"),
        dg.TableColumn("severity"), dg.TableColumn("observed"), dg.TableColumn("unexpected", "int"),
    ]))  # fmt: skip
