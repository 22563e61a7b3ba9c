"""Where everything lies and what runs are made of. Nothing is read before it is asked for."""

import os
from importlib.resources import files
from pathlib import Path

import dagster as dg

from gem_pipeline.contracts.contract import DataContract, load_contract
from gem_pipeline.datasets.landing import open_source
from gem_pipeline.datasets.source import LogSource
from gem_pipeline.training.plan import DayPlan, Task, previous_model_date

DEFAULT_HOME = ".gem"
DEFAULT_DATA = Path("../shared/data")


def contract_path() -> Path:
    """The contract's file: GEM_CONTRACT, else the packaged one."""
    named = os.environ.get("GEM_CONTRACT")
    return Path(named).absolute() if named else Path(str(files("gem_pipeline") / "datasets" / "kuairand.yaml"))


def home_path() -> Path:
    """The folder of all state: GEM_HOME, else `.gem` in the working directory."""
    return Path(os.environ.get("GEM_HOME") or DEFAULT_HOME).absolute()


class GemSettings(dg.ConfigurableResource):
    """Places and the make of a run.

    Attributes:
        home: folder of all state; empty: GEM_HOME, else `.gem`.
        contract: data contract; empty: GEM_CONTRACT, else the packaged one.
        data: folder of the log, or `generated`; empty: GEM_DATA, else the default folder.
        size: rung of the size ladder.
        seed: root seed.
        threads: CPU threads of a trainer.
    """

    home: str = ""
    contract: str = ""
    data: str = ""
    size: str = "tiny"
    seed: int = 0
    threads: int = 2

    def home_path(self) -> Path:
        """The folder of all state."""
        return Path(self.home).absolute() if self.home else home_path()

    def contract_path(self) -> Path:
        """The contract's file."""
        return Path(self.contract).absolute() if self.contract else contract_path()

    def load_contract(self) -> DataContract:
        """The contract, validated.

        Raises:
            ContractError: it cannot be read or breaks a rule.
        """
        return load_contract(self.contract_path())

    def source(self) -> LogSource | None:
        """The log to land; None where the contract names tables of the user's own.

        Raises:
            DataSourceError: the named folder is missing.
        """
        return open_source(self.load_contract(), self.data or os.environ.get("GEM_DATA") or None, DEFAULT_DATA)

    def plan(self, date: str, previous_date: str | None, tasks: tuple[Task, ...], verticals: tuple[str, ...]) -> DayPlan:
        """The plan of one date."""
        return DayPlan(
            date=date, previous_date=previous_date, tasks=tasks, verticals=verticals,
            contract_path=str(self.contract_path()), home=str(self.home_path()),
            size=self.size, seed=self.seed, threads=self.threads,
        )  # fmt: skip

    def plans(self, dates: list[str], tasks: tuple[Task, ...], verticals: tuple[str, ...] = ()) -> list[DayPlan]:
        """Plans of several dates, oldest first: each starts from the models of the date before it.

        Raises:
            PartitionError: a model that the first date starts from is missing.
        """
        ordered = sorted(dates)
        first = previous_model_date(self.load_contract(), self.home_path(), ordered[0])
        before = [first, *ordered[:-1]]
        return [self.plan(date, previous, tasks, verticals) for date, previous in zip(ordered, before, strict=True)]
