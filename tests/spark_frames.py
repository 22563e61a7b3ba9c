"""Bronze frames of random logs: 2 000 of them in one set of tables, so that few jobs judge many logs."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from gem_pipeline.contracts.contract import DataContract
from gem_pipeline.contracts.conversions import days_before
from spark.counters import OpenedDay, counter_increments
from spark.examples import examples
from spark.open_day import OpenDay
from spark.user_events import user_events
from tests.oracles.event_log import DATES, Row, opens

NUM_LOGS = 2000
TIME = pa.timestamp("us", tz="UTC")
BRONZE = {
    "impressions": {"iid": pa.string(), "uid": pa.int64(), "aid": pa.int64(), "place": pa.string(), "at": TIME,
                    "got": TIME, "clicked": pa.int8(), "bought": pa.int8(), "slot": pa.float32(), "day": pa.string()},
    "engagements": {"eid": pa.string(), "uid": pa.int64(), "aid": pa.int64(), "place": pa.string(),
                    "stream": pa.string(), "acts": pa.list_(pa.string()), "secs": pa.float32(), "at": TIME,
                    "got": TIME, "day": pa.string()},
    "users": {"uid": pa.int64(), "age": pa.float64(), "since": TIME, "hidden": pa.bool_()},
    "ads": {"aid": pa.int64(), "owner_id": pa.int64(), "tags": pa.string(), "since": TIME},
}  # fmt: skip


def arrow(table: str, rows: list[Row]) -> pa.Table:
    """Bronze rows as an Arrow table."""
    return pa.Table.from_pylist(rows, schema=pa.schema(list(BRONZE[table].items())))


@dataclass(frozen=True, kw_only=True)
class Frames:
    """The bronze frames of a set of logs, their rows, and the derivations over them."""

    rows: dict[str, list[Row]]
    impressions: DataFrame
    engagements: DataFrame
    users: DataFrame
    ads: DataFrame
    contract: DataContract

    def opened_days(self, dates: tuple[str, ...] = DATES) -> tuple[OpenedDay, ...]:
        """The opened days among `dates`."""
        opened = {day: int(at.timestamp()) * 1_000_000 for day, at in opens(self.rows).items()}
        days = []
        for day in (day for day in dates if day in opened):
            before = max((other for other in opened if other < day), default=None)
            first = None if before is None else days_before(before, self.contract.visibility.max_delay_days)
            days.append(
                OpenedDay(date=day, opens_us=opened[day], previous=before, previous_opens_us=opened.get(before or ""),
                          first_partition=first)
            )  # fmt: skip
        return tuple(days)

    def events(self) -> DataFrame:
        """`user_events` of every date."""
        return user_events(self.engagements, self.users, self.ads, self.contract)

    def increments(self, dates: tuple[str, ...] = DATES) -> DataFrame:
        """`counter_increments` of some dates."""
        return counter_increments(self.events(), self.opened_days(dates), self.contract)

    def examples(self, increments: DataFrame | None = None) -> DataFrame:
        """`examples` of every date of the impressions."""
        counted = self.increments() if increments is None else increments
        return examples(self.impressions, self.users, self.ads, counted, self.contract, open_day=self.open_day())

    def open_day(self) -> OpenDay:
        """Events of every date, and when the dates opened."""
        dates = tuple(sorted({row["day"] for row in self.rows["impressions"]}))
        return OpenDay(events=self.events(), days=self.opened_days(dates))

    def only(self, *dates: str) -> Frames:
        """The same dimensions with the facts of some dates."""
        facts = {name: [r for r in self.rows[name] if r["day"] in dates] for name in ("impressions", "engagements")}
        chosen = F.col("day").isin(*dates)
        return replace(
            self, rows=self.rows | facts, impressions=self.impressions.filter(chosen),
            engagements=self.engagements.filter(chosen),
        )  # fmt: skip


def frames_of(spark: SparkSession, rows: dict[str, list[Row]], contract: DataContract) -> Frames:
    """Bronze frames of rows."""
    made = {table: spark.createDataFrame(arrow(table, rows[table])).cache() for table in BRONZE}
    return Frames(rows=rows, contract=contract, **made)
