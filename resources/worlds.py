"""Landing of a simulated world: truth first, then what the platform logs of it, day by day, by Spark."""

import json
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from gem_pipeline.atomic import write_json
from gem_pipeline.contracts.contract import DataContract, TableRef
from gem_pipeline.contracts.conversions import days_before
from gem_pipeline.datasets.landing import LandedPartition, landed_before, mark_landed, table_path
from gem_pipeline.datasets.worlds.log import WorldLog
from gem_pipeline.datasets.worlds.population import day_index
from gem_pipeline.datasets.worlds.tables import SERVED, USERS, content_rows, user_rows
from gem_pipeline.errors import PartitionError
from gem_pipeline.quality.gate import partition_files
from resources.lake import PLAIN_PROTOCOL
from spark import faults, worlds

logger = logging.getLogger(__name__)

TRUTH = "worlds/served"  # beside bronze, outside every contract: models never see it
LATEST_ARRIVAL_DAYS = 4  # a conversion arrives at most so many days after it happened
USERS_A_BATCH = 100_000


@dataclass(frozen=True, kw_only=True)
class WorldLanding:
    """Generates and lands days of a world.

    Every table of a set of days is replaced by one commit, impressions last; the marker of a day is written
    after all of them, so an unfinished day is never taken for a complete one, and a killed landing is run again.

    Attributes:
        tasks: Spark tasks a table; None: two a core. No value changes a row.
    """

    contract: DataContract
    log: WorldLog
    home: Path
    spark_provider: Callable[[], SparkSession]
    tasks: int | None = None

    @property
    def lake(self) -> Path:
        """Root of the tables."""
        return self.home / "lake"

    def land(self, dates: tuple[str, ...]) -> list[LandedPartition]:
        """Land some days.

        Raises:
            PartitionError: a date is none of the world's.
        """
        if missing := sorted(set(dates) - set(self.log.days())):
            raise PartitionError(
                f"The {self.log.name} log has no day {', '.join(missing)}.",
                remedy=f"Choose dates between {self.log.days()[0]} and {self.log.days()[-1]}.",
            )
        known = {date: landed_before(self.home, date, self.fingerprint(date)) for date in sorted(set(dates))}
        if stale := tuple(date for date, landed in known.items() if landed is None):
            self._land_dimensions(max(stale))
            known |= {landed.date: landed for landed in self._land_days(stale)}
        return [landed for date in dates if (landed := known[date]) is not None]

    def fingerprint(self, date: str) -> str:
        """Content of a landed day: the log's, and the truth of every day whose conversions may arrive on it."""
        parts = (self.log.fingerprint(date), [self._truth_fingerprint(day) for day in self._sources(date)])
        return f"{self.log.name}-{sha256(repr(parts).encode()).hexdigest()[:16]}"

    def put_truth(self, date: str, served: pa.Table, *, policy: str) -> None:
        """Let a day have been served by a policy of one's own instead of the logged one (closed loop).

        Args:
            date: the day that `served` belongs to.
            served: rows of `tables.SERVED`.
            policy: names what served the day; another name or other rows make the day and those after it land anew.
        """
        self._ensure(self.lake / TRUTH, SERVED)
        write_deltalake(str(self.lake / TRUTH), served, mode="overwrite", predicate=f"date = '{date}'")
        rows, content = served.sort_by("impression_id"), sha256()
        for name in ("impression_id", "content_id", "is_click", "price"):
            content.update(rows[name].to_numpy().tobytes())
        write_json(self._truth_marker(date), {"fingerprint": f"{policy}-{content.hexdigest()[:16]}"})

    # -- truth --------------------------------------------------------------------------------------------

    def _sources(self, date: str) -> list[str]:
        """Days with impressions whose conversions may arrive on a day, and the day itself."""
        window = max(kind.window_days for kind in self.log.world.conversions) + LATEST_ARRIVAL_DAYS
        days = (days_before(date, back) for back in range(window + 1))
        there = set(self.log.days())
        return sorted(d for d in days if d in there and self.log.has_impressions(d))

    def _truth_marker(self, date: str) -> Path:
        return self.home / "landed" / f"truth-{date}.json"

    def _truth_fingerprint(self, date: str) -> str:
        """Of the policy that served a day: a closed loop's where one did, else the logged one's."""
        marker = self._truth_marker(date)
        return str(json.loads(marker.read_text())["fingerprint"]) if marker.exists() else self.log.truth_fingerprint

    def _missing_truth(self, dates: set[str]) -> tuple[str, ...]:
        return tuple(sorted(date for date in dates if not self._truth_marker(date).exists()))

    def _land_truth(self, dates: set[str]) -> None:
        missing = self._missing_truth(dates)
        if not missing:
            return
        rows = worlds.served(self.spark_provider(), self.log, missing, tasks=self._num_tasks())
        self._replace(TRUTH, rows, missing, SERVED)
        for date in missing:
            write_json(self._truth_marker(date), {"fingerprint": self.log.truth_fingerprint})

    # -- what the platform logs ---------------------------------------------------------------------------

    def _land_days(self, dates: tuple[str, ...]) -> Iterator[LandedPartition]:
        spark, tables, choice = self.spark_provider(), self.contract.tables, self.log.choice.faults
        before = {date: days_before(date, 1) for date in dates}
        earlier = tuple(day for day in before.values() if choice.late and day in self.log.days())
        sources = {day for date in (*dates, *earlier) for day in self._sources(date)}
        self._land_truth(sources)
        truth = self._truth(spark, sources)
        late = self._engagements(spark, truth, earlier) if earlier else None
        if late is not None:
            late = late.withColumn("date", F.date_add(F.col("date").cast("date"), 1).cast("string"))
        events = faults.with_faults(self._engagements(spark, truth, dates), late, choice)
        self._replace(self._path(tables.engagements), events, dates)
        if self.contract.tables.conversions is not None:
            self._replace(self._path(self.contract.tables.conversions), worlds.conversions(truth, dates), dates)
        shown = worlds.impressions(truth.filter(F.col("date").isin(*dates)))
        version = self._replace(self._path(tables.impressions), shown, dates)
        counts = [self._counts(ref) for ref in (tables.impressions, tables.engagements)]
        for date in dates:
            landed = LandedPartition(
                date=date, num_impressions=counts[0].get(date, 0), num_engagements=counts[1].get(date, 0),
                version=version, fingerprint=self.fingerprint(date), unchanged=False,
            )  # fmt: skip
            mark_landed(self.home, landed)
            yield landed

    def _truth(self, spark: SparkSession, dates: set[str]) -> DataFrame:
        self._ensure(self.lake / TRUTH, SERVED)
        return spark.read.format("delta").load(str(self.lake / TRUTH)).filter(F.col("date").isin(*sorted(dates)))

    def _engagements(self, spark: SparkSession, truth: DataFrame, dates: tuple[str, ...]) -> DataFrame:
        shown = truth.filter(F.col("date").isin(*dates))
        return (
            worlds.organic(spark, self.log, dates, tasks=self._num_tasks())
            .unionByName(worlds.ad_events(shown))
            .unionByName(worlds.conversion_events(truth, dates))
        )

    def _land_dimensions(self, newest: str) -> None:
        """Users and content as known until the newest day that ever landed: an older day takes nothing away."""
        marker = self.home / "landed" / "dimensions.json"
        known = json.loads(marker.read_text()) if marker.exists() else {}
        through = max(newest, str(known.get("through", "")))
        wanted = {"fingerprint": f"{self.log.name}-{self.log.truth_fingerprint}", "through": through}
        if known == wanted:
            return
        world, scale = self.log.world, self.log.scale
        day = day_index(scale, through)
        ranges = range(0, scale.users, USERS_A_BATCH)
        rows = (
            batch for first in ranges
            for batch in user_rows(world, scale, first, first + USERS_A_BATCH, day).to_batches()
        )  # fmt: skip
        reader = pa.RecordBatchReader.from_batches(USERS, rows)
        tables = self.contract.tables
        for ref, made in ((tables.users, reader), (tables.ads, content_rows(world, scale, day))):
            write_deltalake(table_path(ref, self.lake), made, mode="overwrite", schema_mode="overwrite")
        write_json(marker, wanted)

    # -- Delta --------------------------------------------------------------------------------------------

    def _num_tasks(self) -> int:
        return self.tasks or 2 * self.spark_provider().sparkContext.defaultParallelism

    def _path(self, ref: TableRef) -> str:
        return table_path(ref, self.lake)

    def _ensure(self, path: Path, schema: pa.Schema) -> None:
        DeltaTable.create(str(path), schema, mode="ignore", partition_by=["date"], configuration=dict(PLAIN_PROTOCOL))

    def _replace(self, path: str, rows: DataFrame, dates: tuple[str, ...], schema: pa.Schema | None = None) -> int:
        """Replace some days of a table by one commit."""
        place = Path(path) if Path(path).is_absolute() else self.lake / path
        if schema is not None:
            self._ensure(place, schema)
        listed = ", ".join(f"'{date}'" for date in dates)
        writer = rows.write.format("delta").mode("overwrite").partitionBy("date").option("mergeSchema", "true")
        if DeltaTable.is_deltatable(str(place)):
            writer = writer.option("replaceWhere", f"date IN ({listed})")
        else:
            for name, value in PLAIN_PROTOCOL.items():
                writer = writer.option(name, value)
        writer.save(str(place))
        logger.info("landed %s for %d day(s)", place.name, len(dates))
        return DeltaTable(str(place)).version()

    def _counts(self, ref: TableRef) -> dict[str, int]:
        files = partition_files(DeltaTable(self._path(ref)), "date")
        return {date: found.num_rows or 0 for date, found in files.items()}
