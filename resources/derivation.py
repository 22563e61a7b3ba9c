"""Derivation of the silver tables: what is stale is computed in one Spark job, validated, and published at once."""

import logging
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from gem_pipeline.contracts import tables
from gem_pipeline.contracts.contract import DataContract
from gem_pipeline.contracts.tables import TableSchema
from gem_pipeline.quality.gate import CheckResult, GateMarker, gate_error, read_gate, write_gate
from gem_pipeline.quality.suites import least_rows, suite_hash
from gem_pipeline.quality.validate import validate
from resources.inputs import SilverInputs
from resources.lake import DeltaLake
from resources.quarantine import SourceCount, count_source, keep_left_out, share_check
from resources.recipes import Recipe, Recipes
from resources.staging import StagedRows
from spark.profile import partition_profile

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class PublishedPartition:
    """A date partition that is in the lake and has passed its gate.

    Attributes:
        fingerprint: of the partition's rows, whatever their files.
        unchanged: it was there already; nothing was computed.
        quarantined: rows left out, by reason.
        seconds: wall time, shared equally by the dates of one job.
        stats: numbers of interest, by name.
    """

    table: str
    date: str
    num_rows: int
    delta_version: int
    fingerprint: str
    unchanged: bool
    checks: tuple[CheckResult, ...]
    quarantined: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    stats: dict[str, float] = field(default_factory=dict)


class Derivation:
    """Derives `user_events`, `counter_increments`, `examples` and `attributed_conversions` for a set of dates.

    A date whose inputs, contract and files are those of its passed gate is left alone, and where all
    dates are, no Spark starts. Results do not depend on how the dates are grouped into calls.

    Args:
        contract: the data contract.
        lake: bronze and silver tables.
        spark_provider: gives the session; called only when something has to be computed.
        home: gates and data docs go there.
    """

    def __init__(
        self, *, contract: DataContract, lake: DeltaLake, spark_provider: Callable[[], SparkSession], home: Path
    ) -> None:
        self.contract, self.lake, self.home = contract, lake, home
        self._spark = spark_provider
        self.inputs = SilverInputs(contract=contract, lake=lake, home=home)
        self.recipes = Recipes(contract=contract, lake=lake, inputs=self.inputs)

    def user_events(self, dates: Iterable[str]) -> list[PublishedPartition]:
        """Derive event partitions.

        Raises:
            DataSourceError: a bronze table does not exist.
            PartitionError: a date has no engagements.
            SchemaError: a column is missing or unusable.
            GateError: a date failed its validation; the others are published.
        """
        self.inputs.refresh()
        wanted = {date: self.inputs.user_events(date) for date in sorted(set(dates))}
        return self._derive(tables.user_events(self.contract), wanted, self.recipes.events)

    def counter_increments(self, dates: Iterable[str]) -> list[PublishedPartition]:
        """Derive counter increments; the events of the dates before must be there. Raises as `user_events`."""
        self.inputs.refresh()
        wanted = {date: self.inputs.counter_increments(date) for date in sorted(set(dates))}
        return self._derive(tables.counter_increments(self.contract), wanted, self.recipes.increments)

    def examples(self, dates: Iterable[str]) -> list[PublishedPartition]:
        """Derive examples, and the vectors that they point at; the counter increments of their window must be there.

        Raises as `user_events`.
        """
        self.inputs.refresh()
        self.vectors()
        wanted = {date: self.inputs.examples(date) for date in sorted(set(dates))}
        return self._derive(tables.examples(self.contract), wanted, self.recipes.examples)

    def vectors(self) -> list[PublishedPartition]:
        """Derive the vectors of ads and users as they are now; nothing where the contract has none.

        They belong to no date: a table is derived when its dimension has changed, and rewritten when its rows have.
        Raises as `user_events`.
        """
        found = []
        for origin, schema in tables.vector_tables(self.contract):
            wanted = {tables.ALL_DAYS: self.inputs.vectors(origin)}
            found += self._derive(schema, wanted, partial(self.recipes.vectors, origin))
        return found

    def attributed_conversions(self, dates: Iterable[str]) -> list[PublishedPartition]:
        """Credit the conversions that arrived on some dates; the examples within reach must be there.

        Derives these dates, and every other one with examples that a conversion or an impression of theirs can
        reach. Only partitions whose rows change are written. Raises as `user_events`.

        Returns:
            One partition a date of impressions; none where no objective is a conversion.
        """
        if not self.contract.conversion_objectives:
            return []
        self.inputs.refresh()
        asked = sorted(set(dates))
        touched = sorted({*asked, *self.inputs.within_reach(asked, self.inputs.examples_there)})
        wanted = {date: self.inputs.attributed_conversions(date) for date in touched}
        return self._derive(tables.attributed_conversions(), wanted, self.recipes.conversions)

    # -- the one procedure --------------------------------------------------------------------------------

    def _derive(
        self, schema: TableSchema, wanted: dict[str, str], recipe: Callable[[SparkSession, tuple[str, ...]], Recipe]
    ) -> list[PublishedPartition]:
        self.lake.ensure_table(schema)
        there = self.lake.fingerprints(schema.name)
        fresh = {date: self._unchanged(schema.name, date, wanted[date], there.get(date)) for date in wanted}
        stale = tuple(date for date, found in fresh.items() if found is None)
        published = [found for found in fresh.values() if found is not None]
        if stale:
            published += self._compute(schema, {date: wanted[date] for date in stale}, recipe)
        return sorted(published, key=lambda partition: partition.date)

    def _unchanged(self, table: str, date: str, wanted: str, there: str | None) -> PublishedPartition | None:
        marker = read_gate(self.home, table, date)
        rules = suite_hash(self.contract, table)
        same = (
            marker is not None
            and marker.passed
            and (marker.input_fingerprint, marker.suite_hash) == (wanted, rules)
            and marker.partition_fingerprint == (there or "")
        )
        return _published(marker, unchanged=True) if same and marker is not None else None

    def _compute(
        self, schema: TableSchema, wanted: dict[str, str], recipe: Callable[[SparkSession, tuple[str, ...]], Recipe]
    ) -> list[PublishedPartition]:
        started, dates, table = time.monotonic(), tuple(wanted), schema.name
        spark = self._spark()
        made = recipe(spark, dates)
        with ExitStack() as after:
            for frame in made.held:
                after.callback(frame.unpersist)
            staged = self.lake.stage(made.rows, schema, dates, placed=made.placed)
            after.callback(self.lake.discard, staged)
            found = partition_profile(staged.rows, self.contract, table).collect()
            profile = {row["date"]: row.asDict() for row in found}
            counts = count_source(made.left_out, {date: _num_rows(profile, date) for date in dates}, dates)
            checks = self._checks(staged, made, profile, counts)
            if made.left_out is not None:
                keep_left_out(self.lake, made.left_out, table, counts)
            passed = tuple(d for d in dates if all(c.passed or c.severity == "WARN" for c in checks[d]))
            self._publish(staged, passed, profile, made.lineage, wanted)
        seconds = (time.monotonic() - started) / len(dates)
        markers = self._write_gates(table, wanted, profile, checks, counts, set(passed))
        stats = {
            d: {k: float(v) for k, v in profile.get(d, {}).items() if k.startswith("stat__") and v is not None}
            for d in dates
        }
        logger.info("derived %s for %d date(s) in %.1f s", table, len(dates), seconds * len(dates))
        if failed := [m for m in markers if not m.passed]:
            raise gate_error(failed)
        return [
            _published(m, unchanged=False, seconds=seconds, stats={k[6:]: v for k, v in stats[m.date].items()})
            for m in markers
        ]

    def _checks(
        self, staged: StagedRows, made: Recipe, profile: dict[str, dict[str, object]], counts: dict[str, SourceCount]
    ) -> dict[str, tuple[CheckResult, ...]]:
        """Results by date. The whole is judged once; only where it fails is each date judged by itself."""
        table, dates = staged.schema.name, staged.dates
        span = dates[0] if len(dates) == 1 else f"{dates[0]}_{dates[-1]}"
        docs = self.home / "data_docs" / table / f"{span}.html"
        whole = validate(staged.rows, self.contract, table, docs=docs)
        if all(check.passed for check in whole) or len(dates) == 1:
            by_date = dict.fromkeys(dates, whole)
        else:
            by_date = {
                date: validate(staged.rows.filter(F.col("date") == date), self.contract, table,
                               docs=docs.with_name(f"{date}.html"))
                for date in dates
            }  # fmt: skip
        recounted = made.recount(staged.rows) if made.recount else {}
        least = least_rows(self.contract, table)
        results: dict[str, tuple[CheckResult, ...]] = {}
        for date, found in by_date.items():
            rows = _num_rows(profile, date)
            own = [CheckResult(name="rows_of_the_date", passed=rows >= least, observed=rows)]
            if made.left_out:
                own.append(share_check(self.contract, table, counts[date]))
            if made.recount:
                own.append(
                    recounted.get(date, CheckResult(name="zero_leaked_events", passed=False, observed="no rows"))
                )
            results[date] = (*found, *own)
        return results

    def _publish(
        self, staged: StagedRows, passed: tuple[str, ...], profile: dict[str, dict[str, object]],
        lineage: dict[str, object], wanted: dict[str, str],
    ) -> None:  # fmt: skip
        """One commit for every passed date whose rows differ from what is there."""
        there = self.lake.fingerprints(staged.schema.name)
        changed = []
        for date in passed:
            marker = read_gate(self.home, staged.schema.name, date)
            known = marker is not None and marker.partition_fingerprint == there.get(date, "")
            if not (known and marker is not None and marker.content_hash == _content(profile, date)):
                changed.append(date)
        if changed:
            facts = {"contract_hash": self.contract.content_hash, "input_fingerprints": {d: wanted[d] for d in changed}}
            self.lake.publish(staged, tuple(changed), lineage | facts)

    def _write_gates(
        self, table: str, wanted: dict[str, str], profile: dict[str, dict[str, object]],
        checks: dict[str, tuple[CheckResult, ...]], counts: dict[str, SourceCount], passed: set[str],
    ) -> list[GateMarker]:  # fmt: skip
        there, version = self.lake.fingerprints(table), self.lake.version(table)
        markers = []
        for date, inputs in wanted.items():
            marker = GateMarker(
                table=table, date=date, delta_version=version or 0, partition_fingerprint=there.get(date, ""),
                content_hash=_content(profile, date), input_fingerprint=inputs,
                contract_hash=self.contract.content_hash, suite_hash=suite_hash(self.contract, table),
                num_rows=_num_rows(profile, date), passed=date in passed,
                checks=checks[date], quarantined=counts[date].left_out, written_at=datetime.now(UTC).isoformat(),
            )  # fmt: skip
            write_gate(self.home, marker)
            markers.append(marker)
        return markers


def _content(profile: dict[str, dict[str, object]], date: str) -> str:
    return str(profile.get(date, {}).get("content_hash", "empty"))


def _num_rows(profile: dict[str, dict[str, object]], date: str) -> int:
    return int(str(profile.get(date, {}).get("num_rows", 0)))


def _published(
    marker: GateMarker, *, unchanged: bool, seconds: float = 0.0, stats: dict[str, float] | None = None
) -> PublishedPartition:
    return PublishedPartition(
        table=marker.table, date=marker.date, num_rows=marker.num_rows, delta_version=marker.delta_version,
        fingerprint=marker.content_hash, unchanged=unchanged, checks=marker.checks, quarantined=marker.quarantined,
        seconds=seconds, stats=stats or {},
    )  # fmt: skip
