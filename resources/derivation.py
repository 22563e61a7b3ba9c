"""Derivation of the silver tables: what is stale is computed in one Spark job, validated, and published at once."""

import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from gem_pipeline.contracts import tables
from gem_pipeline.contracts.contract import DataContract
from gem_pipeline.contracts.tables import TableSchema
from gem_pipeline.quality.gate import CheckResult, GateMarker, gate_error, read_gate, write_gate
from gem_pipeline.quality.leakage import event_columns, recount
from gem_pipeline.quality.suites import least_rows, suite_hash
from gem_pipeline.quality.validate import validate
from resources.inputs import SilverInputs
from resources.lake import DeltaLake, StagedRows, hold
from resources.quarantine import LeftOut, SourceCount, count_source, keep_left_out, share_check
from spark.conversions import attributed_conversions, quarantined_conversions, settled_conversions
from spark.counters import OpenedDay, counter_increments
from spark.examples import examples, judged_impressions, quarantined_impressions
from spark.leakage import recount_sample
from spark.open_day import OpenDay
from spark.profile import partition_profile
from spark.user_events import judged_engagements, quarantined_engagements, user_events
from spark.vectors import judged_vectors, quarantined_vectors, vectors

logger = logging.getLogger(__name__)

RECOUNTED = 8  # impressions of each date that are recounted for leaks


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


@dataclass(frozen=True, kw_only=True, slots=True)
class _Recipe:
    """How the stale dates of a table are computed.

    Attributes:
        rows: the derived rows.
        left_out: source rows that are not among them; None: the table leaves none out.
        recount: staged rows -> the check of leaked events by date; None: nothing to check.
        lineage: what the commit's metadata says beside the fingerprints.
        held: frames that were cached for the rows.
    """

    rows: DataFrame
    left_out: LeftOut | None
    recount: Callable[[DataFrame], dict[str, CheckResult]] | None
    lineage: dict[str, object]
    held: list[DataFrame] = field(default_factory=list)


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
        return self._derive(tables.user_events(self.contract), wanted, self._event_recipe)

    def counter_increments(self, dates: Iterable[str]) -> list[PublishedPartition]:
        """Derive counter increments; the events of the dates before must be there. Raises as `user_events`."""
        self.inputs.refresh()
        wanted = {date: self.inputs.counter_increments(date) for date in sorted(set(dates))}
        return self._derive(tables.counter_increments(self.contract), wanted, self._increment_recipe)

    def examples(self, dates: Iterable[str]) -> list[PublishedPartition]:
        """Derive examples, and the vectors that they point at; the counter increments of their window must be there.

        Raises as `user_events`.
        """
        self.inputs.refresh()
        self.vectors()
        wanted = {date: self.inputs.examples(date) for date in sorted(set(dates))}
        return self._derive(tables.examples(self.contract), wanted, self._example_recipe)

    def vectors(self) -> list[PublishedPartition]:
        """Derive the vectors of ads and users as they are now; nothing where the contract has none.

        They belong to no date: a table is derived when its dimension has changed, and rewritten when its rows have.
        Raises as `user_events`.
        """
        found = []
        for origin, schema in tables.vector_tables(self.contract):
            wanted = {tables.ALL_DAYS: self.inputs.vectors(origin)}
            found += self._derive(schema, wanted, partial(self._vector_recipe, origin))
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
        return self._derive(tables.attributed_conversions(), wanted, self._conversion_recipe)

    # -- recipes ------------------------------------------------------------------------------------------

    def _event_recipe(self, spark: SparkSession, dates: tuple[str, ...]) -> _Recipe:
        ref = self.contract.tables
        bronze = self._days(self.lake.read_bronze(spark, ref.engagements), dates)
        sources = bronze, self.lake.read_bronze(spark, ref.users), self.lake.read_bronze(spark, ref.ads)
        judged = judged_engagements(*sources, self.contract)
        left_out = LeftOut(
            source="engagements", judged=judged, has_copies=True,
            rows=lambda copies: quarantined_engagements(judged, copies_on=copies),
        )  # fmt: skip
        return _Recipe(rows=user_events(*sources, self.contract), left_out=left_out, recount=None, lineage={})

    def _increment_recipe(self, spark: SparkSession, dates: tuple[str, ...]) -> _Recipe:
        days = self._opened_days(spark, dates)
        needed = sorted({p for date in dates for p in self.inputs.counted_partitions(date)})
        events = self.lake.read(spark, "user_events").filter(F.col("date").isin(*needed))
        rows = counter_increments(events, days, self.contract)
        return _Recipe(rows=rows, left_out=None, recount=None, lineage=self._versions("user_events"))

    def _example_recipe(self, spark: SparkSession, dates: tuple[str, ...]) -> _Recipe:
        ref = self.contract.tables
        bronze = self._days(self.lake.read_bronze(spark, ref.impressions), dates)
        users, ads = self.lake.read_bronze(spark, ref.users), self.lake.read_bronze(spark, ref.ads)
        window = sorted({day for date in dates for day in self.inputs.window_days(date)})
        increments = self.lake.read(spark, "counter_increments").filter(F.col("date").isin(*window))
        held: list[DataFrame] = []
        rows = examples(
            bronze, users, ads, increments, self.contract, open_day=self._open_day(spark, dates),
            hold=partial(hold, into=held),
        )  # fmt: skip
        judged = judged_impressions(bronze, users, ads, self.contract)
        used = sorted({p for day in window for p in self.inputs.counted_partitions(day)} | set(dates))
        return _Recipe(
            rows=rows,
            left_out=LeftOut(
                source="impressions",
                judged=judged,
                has_copies=True,
                rows=lambda copies: quarantined_impressions(judged, copies_on=copies),
            ),
            recount=lambda staged: self._recount(recount_sample(staged, ads, self.contract, num_rows=RECOUNTED), used),
            lineage=self._versions("user_events", "counter_increments"), held=held,
        )  # fmt: skip

    def _open_day(self, spark: SparkSession, dates: tuple[str, ...]) -> OpenDay | None:
        """What counters of lag `none` read; None where the contract has none."""
        if not self.contract.counters.see_open_day:
            return None
        needed = sorted({p for date in dates for p in self.inputs.open_partitions(date)})
        events = self.lake.read(spark, "user_events").filter(F.col("date").isin(*needed))
        return OpenDay(events=events, days=self._opened_days(spark, dates))

    def _vector_recipe(self, origin: tables.Origin, spark: SparkSession, dates: tuple[str, ...]) -> _Recipe:
        del dates  # all of them are one
        bronze = self.lake.read_bronze(spark, getattr(self.contract.tables, origin))
        judged = judged_vectors(bronze, self.contract, origin)
        left_out = LeftOut(source=origin, judged=judged, has_copies=False, rows=lambda _: quarantined_vectors(judged))
        return _Recipe(rows=vectors(judged, self.contract, origin), left_out=left_out, recount=None, lineage={})

    def _conversion_recipe(self, spark: SparkSession, dates: tuple[str, ...]) -> _Recipe:
        ref = self.contract.tables
        assert ref.conversions is not None, "checked when the contract was loaded"
        bronze = self._days(
            self.lake.read_bronze(spark, ref.conversions), self.inputs.within_reach(dates, self.inputs.conversions)
        )
        seen = self.inputs.within_reach(dates, self.inputs.examples_there)
        impressions = self.lake.read(spark, "examples").filter(F.col("date").isin(*seen))
        dimensions = self.lake.read_bronze(spark, ref.users), self.lake.read_bronze(spark, ref.ads)
        sources = (bronze, impressions, *dimensions, self.contract, dates)
        settled = settled_conversions(*sources)
        left_out = LeftOut(
            source="conversions", judged=settled, has_copies=False, rows=lambda _: quarantined_conversions(settled)
        )
        return _Recipe(
            rows=attributed_conversions(*sources), left_out=left_out, recount=None, lineage=self._versions("examples")
        )

    def _recount(self, sample: DataFrame, dates: list[str]) -> dict[str, CheckResult]:
        rows = sample.withColumn("impression_us", F.unix_micros("impression_ts")).collect()
        batches = self.lake.batches("user_events", dates, event_columns(self.contract))
        return recount([row.asDict() for row in rows], batches, self.contract)

    def _days(self, facts: DataFrame, dates: tuple[str, ...]) -> DataFrame:
        return facts.filter(F.col(self.contract.partition.column).cast("string").isin(*dates))

    def _versions(self, *upstream: str) -> dict[str, object]:
        return {f"{table}_version": self.lake.version(table) for table in upstream}

    def _opened_days(self, spark: SparkSession, dates: tuple[str, ...]) -> tuple[OpenedDay, ...]:
        """When the dates, and the ones before them, opened: one small job."""
        before = {date: self.inputs.previous_day(date) for date in dates}
        wanted = tuple(sorted({*dates, *filter(None, before.values())}))
        bronze = self._days(self.lake.read_bronze(spark, self.contract.tables.impressions), wanted)
        ref = self.contract.tables
        dimensions = self.lake.read_bronze(spark, ref.users), self.lake.read_bronze(spark, ref.ads)
        kept = judged_impressions(bronze, *dimensions, self.contract).filter("fault IS NULL")
        found = kept.groupBy("date").agg(F.min(F.unix_micros("impression_ts")).alias("opens_us")).collect()
        return self.inputs.opened_days(dates, {row["date"]: int(row["opens_us"]) for row in found})

    # -- the one procedure --------------------------------------------------------------------------------

    def _derive(
        self, schema: TableSchema, wanted: dict[str, str], recipe: Callable[[SparkSession, tuple[str, ...]], _Recipe]
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
        self, schema: TableSchema, wanted: dict[str, str], recipe: Callable[[SparkSession, tuple[str, ...]], _Recipe]
    ) -> list[PublishedPartition]:
        started, dates, table = time.monotonic(), tuple(wanted), schema.name
        spark = self._spark()
        made = recipe(spark, dates)
        staged = self.lake.stage(made.rows, schema, dates)
        try:
            profile = {
                row["date"]: row.asDict() for row in partition_profile(staged.rows, self.contract, table).collect()
            }
            counts = count_source(made.left_out, {date: _num_rows(profile, date) for date in dates}, dates)
            checks = self._checks(staged, made, profile, counts)
            if made.left_out is not None:
                keep_left_out(self.lake, made.left_out, table, counts)
            passed = tuple(d for d in dates if all(c.passed or c.severity == "WARN" for c in checks[d]))
            self._publish(staged, passed, profile, made.lineage, wanted)
        finally:
            self.lake.discard(staged)
            for frame in made.held:
                frame.unpersist()
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
        self, staged: StagedRows, made: _Recipe, profile: dict[str, dict[str, object]], counts: dict[str, SourceCount]
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
