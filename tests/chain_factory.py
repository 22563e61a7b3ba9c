"""A chain of trained days over the lake of `lake_factory`, and what is read back from it."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import torch
import yaml
from deltalake import DeltaTable
from torch import Tensor

from gem_pipeline.batches.encoded_day import EncodedDay
from gem_pipeline.batches.reader import DayReader
from gem_pipeline.batches.windows import WindowSpec
from gem_pipeline.contracts import tables
from gem_pipeline.contracts.contract import load_contract
from gem_pipeline.runs.day import train_day
from gem_pipeline.runs.records import DayReport
from gem_pipeline.training.plan import DayPlan
from gem_pipeline.training.store import ModelStore
from tests.lake_factory import CONTRACT_PATH, DAYS, contract, make_lake, put, put_vectors, vector_document

FULL = WindowSpec(max_events=64)
VERTICALS = ("tab_1__click", "tab_0__like")


@dataclass(frozen=True, kw_only=True)
class Chain:
    """A home whose days were trained in order.

    Attributes:
        reports: what the trainer said of each day.
    """

    home: Path
    reports: dict[str, DayReport]

    @property
    def lake(self) -> Path:
        """Root of the tables."""
        return self.home / "lake"

    @property
    def store(self) -> ModelStore:
        """The models."""
        return ModelStore(self.home)

    def plan(self, date: str, **changes) -> DayPlan:
        """The plan that trained a day, or one that differs from it."""
        place = DAYS.index(date)
        own = {
            "date": date, "previous_date": DAYS[place - 1] if place else None, "contract_path": str(CONTRACT_PATH),
            "home": str(self.home), "verticals": VERTICALS, "threads": 1,
        }  # fmt: skip
        return DayPlan(**(own | changes))

    def read(self, date: str, window: WindowSpec = FULL) -> list[EncodedDay]:
        """Encoded examples of a day."""
        return list(DayReader(contract(), self.lake, window=window).day(date))

    def table(self, name: str, date: str) -> pd.DataFrame:
        """Rows of a table on a day."""
        return DeltaTable(str(self.lake / name)).to_pyarrow_table(filters=[("date", "=", date)]).to_pandas()

    def rewrite_examples(self, date: str, **columns) -> None:
        """Replace whole columns of the day's examples; the partition gets a new valid gate."""
        own = contract()
        put(self.home, own, tables.examples(own), date, self.table("examples", date).assign(**columns))

    def weights(self, name: str, date: str) -> dict[str, Tensor]:
        """Weights in force."""
        return self.store.require(name, date).weights()

    def forget(self, date: str, task: str) -> None:
        """Take the record of a task away, as if its process had been killed just before writing it."""
        (self.home / "records" / date / f"{task}.json").unlink()

    def copy(self, home: Path) -> Chain:
        """The same chain in a home of its own, free to be changed."""
        shutil.copytree(self.home, home)
        return Chain(home=home, reports=self.reports)


def train_chain(home: Path, *, days: tuple[str, ...] = DAYS, rows: int = 240, **changes) -> Chain:
    """Make a lake and train its days in order."""
    make_lake(home, rows=rows)
    chain = Chain(home=home, reports={})
    for date in days:
        chain.reports[date] = train_day(chain.plan(date, **changes))
    return chain


def train_with_vectors(home: Path) -> DayReport:
    """A first day trained under `vector_contract`, which is written beside the lake as `contract.yaml`."""
    home.mkdir(parents=True)
    path = home / "contract.yaml"
    path.write_text(yaml.safe_dump(vector_document()), encoding="utf-8")
    own = load_contract(path)
    make_lake(home, days=DAYS[:1], rows=160, own=own)
    put_vectors(home, own)
    return train_day(vector_plan(home))


def vector_plan(home: Path, **changes) -> DayPlan:
    """The plan of `train_with_vectors`, or one that differs from it."""
    own = {"date": DAYS[0], "previous_date": None, "contract_path": str(home / "contract.yaml"), "home": str(home),
           "verticals": VERTICALS[:1], "tasks": ("foundation", "verticals")}  # fmt: skip
    return DayPlan(**(own | changes))


def same_weights(first: dict[str, Tensor], second: dict[str, Tensor]) -> bool:
    """Whether two models are equal bit by bit."""
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)
