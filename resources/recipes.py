"""How the rows of each silver table are computed: what is read, what is derived, what is left out and recounted."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from gem_pipeline.contracts.contract import DataContract
from gem_pipeline.contracts.tables import Origin
from gem_pipeline.quality.gate import CheckResult
from gem_pipeline.quality.leakage import event_columns, recount
from resources.inputs import SilverInputs
from resources.lake import DeltaLake, hold
from resources.quarantine import LeftOut
from spark.conversions import attributed_conversions, quarantined_conversions, settled_conversions
from spark.counters import OpenedDay, counter_increments
from spark.examples import examples, judged_impressions, quarantined_impressions
from spark.leakage import recount_sample
from spark.open_day import OpenDay
from spark.user_events import judged_engagements, quarantined_engagements, user_events
from spark.vectors import judged_vectors, quarantined_vectors, vectors

RECOUNTED = 8  # impressions of each date that are recounted for leaks


@dataclass(frozen=True, kw_only=True, slots=True)
class Recipe:
    """How the stale dates of a table are computed.

    Attributes:
        rows: the derived rows.
        left_out: source rows that are not among them; None: the table leaves none out.
        recount: staged rows -> the check of leaked events by date; None: nothing to check.
        lineage: what the commit's metadata says beside the fingerprints.
        held: frames that were cached for the rows.
        placed: the rows of a partition of the table are in one partition of the frame already.
    """

    rows: DataFrame
    left_out: LeftOut | None
    recount: Callable[[DataFrame], dict[str, CheckResult]] | None
    lineage: dict[str, object]
    held: list[DataFrame] = field(default_factory=list)
    placed: bool = False


class Recipes:
    """One method a table: a session and the stale dates -> what to compute.

    Args:
        contract: the data contract.
        lake: bronze and silver tables.
        inputs: which partitions each date reads.
    """

    def __init__(self, *, contract: DataContract, lake: DeltaLake, inputs: SilverInputs) -> None:
        self.contract, self.lake, self.inputs = contract, lake, inputs

    def events(self, spark: SparkSession, dates: tuple[str, ...]) -> Recipe:
        """`user_events`, and the engagements that are not among them."""
        ref = self.contract.tables
        read = sorted({*dates, *(day for date in dates for day in self.inputs.days_of_copies(date))})
        bronze = self._days(self.lake.read_bronze(spark, ref.engagements), tuple(read))
        sources = bronze, self.lake.read_bronze(spark, ref.users), self.lake.read_bronze(spark, ref.ads)
        judged = judged_engagements(*sources, self.contract)
        left_out = LeftOut(
            source="engagements", judged=judged.filter(F.col("date").isin(*dates)), has_copies=True,
            rows=lambda copies: quarantined_engagements(judged, self.contract, dates=dates, copies_on=copies),
        )  # fmt: skip
        rows = user_events(*sources, self.contract, dates=dates)
        return Recipe(rows=rows, left_out=left_out, recount=None, lineage={}, placed=True)

    def increments(self, spark: SparkSession, dates: tuple[str, ...]) -> Recipe:
        """`counter_increments`; nothing is left out."""
        days = self._opened_days(spark, dates)
        needed = sorted({p for date in dates for p in self.inputs.counted_partitions(date)})
        events = self.lake.read(spark, "user_events").filter(F.col("date").isin(*needed))
        rows = counter_increments(events, days, self.contract)
        return Recipe(rows=rows, left_out=None, recount=None, lineage=self._versions("user_events"))

    def examples(self, spark: SparkSession, dates: tuple[str, ...]) -> Recipe:
        """`examples`, the impressions that are not among them, and the recount of some for leaked events."""
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
        return Recipe(
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

    def vectors(self, origin: Origin, spark: SparkSession, dates: tuple[str, ...]) -> Recipe:
        """The vectors of ads or users."""
        del dates  # all of them are one
        bronze = self.lake.read_bronze(spark, getattr(self.contract.tables, origin))
        judged = judged_vectors(bronze, self.contract, origin)
        left_out = LeftOut(source=origin, judged=judged, has_copies=False, rows=lambda _: quarantined_vectors(judged))
        return Recipe(rows=vectors(judged, self.contract, origin), left_out=left_out, recount=None, lineage={})

    def conversions(self, spark: SparkSession, dates: tuple[str, ...]) -> Recipe:
        """`attributed_conversions`, and the conversions that no objective counts."""
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
        return Recipe(
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
