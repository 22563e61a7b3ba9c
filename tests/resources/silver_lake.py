"""A small bronze lake of random logs on disk, and derivations over it."""

from __future__ import annotations

import random
import shutil
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession

from gem_pipeline.contracts.contract import DataContract
from gem_pipeline.contracts.tables import silver_tables
from resources.derivation import Derivation, PublishedPartition
from resources.lake import DeltaLake
from tests.oracles.conversions import CONVERSIONS, conversion_contract
from tests.oracles.event_log import DATES, SECOND, Row, random_logs
from tests.spark_frames import arrow as arrow_of


def arrow(table: str, rows: list[Row]) -> pa.Table:
    """Bronze rows as an Arrow table."""
    if table == "conversions":
        return pa.Table.from_pylist(rows, schema=pa.schema(list(CONVERSIONS.items())))
    return arrow_of(table, rows)


FACTS = ("impressions", "engagements", "conversions")


def write_bronze(home: Path, rows: dict[str, list[Row]]) -> None:
    """Write every bronze table of the rows; facts are partitioned by day."""
    for table, found in rows.items():
        partition = {"partition_by": ["day"]} if table in FACTS else {}
        write_deltalake(str(home / "lake" / "bronze" / table), arrow(table, found), mode="overwrite", **partition)


def replace_day(home: Path, table: str, day: str, rows: list[Row]) -> None:
    """Replace one day of a fact table."""
    delta = DeltaTable(str(home / "lake" / "bronze" / table))
    if rows:
        write_deltalake(delta, arrow(table, rows), mode="overwrite", predicate=f"day = '{day}'")
    else:
        delta.delete(f"day = '{day}'")


@dataclass
class SilverLake:
    """A home with bronze tables, and how to derive from them."""

    home: Path
    spark: SparkSession
    rows: dict[str, list[Row]]
    contract: DataContract
    starts: int = 0

    def provider(self) -> SparkSession:
        """Count how often a session was asked for."""
        self.starts += 1
        return self.spark

    @property
    def derivation(self) -> Derivation:
        """A fresh derivation, as a new process would make it."""
        lake = DeltaLake(str(self.home / "lake"))
        return Derivation(contract=self.contract, lake=lake, spark_provider=self.provider, home=self.home)

    def copy(self, home: Path) -> SilverLake:
        """The same lake, tables and gates, in another home."""
        shutil.copytree(self.home, home, dirs_exist_ok=True)
        return replace(self, home=home, starts=0)

    def derive(self, dates: tuple[str, ...] = DATES) -> dict[tuple[str, str], PublishedPartition]:
        """Derive every table for some dates."""
        made = self.derivation
        found = [*made.user_events(dates), *made.counter_increments(dates), *made.examples(dates)]
        return {(partition.table, partition.date): partition for partition in found}

    def content(self, table: str) -> pa.Table:
        """The table in the lake, in a fixed order."""
        schema = next(s for s in silver_tables(self.contract) if s.name == table)
        order = [(name, "ascending") for name in (*schema.partition_by, *schema.sort_by)]
        return DeltaTable(str(self.home / "lake" / table)).to_pyarrow_table().sort_by(order).combine_chunks()


def silver_lake(home: Path, spark: SparkSession, *, num_logs: int = 40, seed: int = 1, **rule: int) -> SilverLake:
    """A home whose bronze tables hold random logs, and conversions that follow some of their impressions."""
    rows = random_logs(num_logs, seed)
    rows["conversions"] = _conversions(rows["impressions"], random.Random(seed))
    write_bronze(home, rows)
    return SilverLake(home=home, spark=spark, rows=rows, contract=conversion_contract(**rule))


def _conversions(impressions: list[Row], rng: random.Random) -> list[Row]:
    found = []
    for number, row in enumerate(impressions):
        for i in range(rng.randint(0, 2) if row["at"] is not None else 0):
            at = row["at"] + rng.choice([1, 30, 40_000, 90_000, 200_000]) * SECOND
            got = at + rng.choice([0, 0, 80_000]) * SECOND
            found.append({"cid": f"{number}-{i}", "uid": row["uid"], "aid": row["aid"], "paid": 1.0, "at": at,
                          "what": rng.choice(["purchase", "lead"]), "got": got, "day": str(got.date())})  # fmt: skip
    return found
