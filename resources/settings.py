"""Where everything lies and what runs are made of. Nothing is read before it is asked for."""

from pathlib import Path

import dagster as dg

from gem_pipeline import places
from gem_pipeline.contracts.contract import DataContract, load_contract
from gem_pipeline.datasets.landing import open_source
from gem_pipeline.datasets.source import LogSource
from gem_pipeline.datasets.worlds.log import WorldLog
from gem_pipeline.errors import GemError
from gem_pipeline.training.plan import DayPlan, Task, previous_model_date


class GemSettings(dg.ConfigurableResource):
    """Places and the make of a run.

    Attributes:
        home: folder of all state; empty: GEM_HOME, else `.gem`.
        contract: data contract; empty: GEM_CONTRACT, else the packaged one.
        data: folder of the log, or `generated`; empty: GEM_DATA, else the default folder.
        size: rung of the size ladder, or variants of one, joined by `+`: `tiny`, `small+light+static_y`; empty:
            GEM_SIZE, else `tiny`.
        seed: root seed.
        threads: CPU threads of a trainer.
        replay_days: earlier days whose examples the foundation model learns again with those of each day; None:
            GEM_REPLAY_DAYS, else 0.
    """

    home: str = ""
    contract: str = ""
    data: str = ""
    size: str = ""
    seed: int = 0
    threads: int = 1
    replay_days: int | None = None

    def home_path(self) -> Path:
        """The folder of all state."""
        return (Path(self.home) if self.home else places.home_path()).absolute()

    def contract_path(self) -> Path:
        """The contract's file."""
        return (Path(self.contract) if self.contract else places.contract_path()).absolute()

    def load_contract(self) -> DataContract:
        """The contract, validated.

        Raises:
            ContractError: it cannot be read or breaks a rule.
        """
        return load_contract(self.contract_path())

    def source(self) -> LogSource | WorldLog | None:
        """The log to land; None where the contract names tables of the user's own.

        Raises:
            DataSourceError: the named folder is missing.
        """
        return open_source(self.load_contract(), self.data or places.named_data(), places.DEFAULT_DATA)

    def table_uri(self, table: str) -> str:
        """Where a table of the lake lies."""
        return str(self.home_path() / "lake" / table)

    def plan(
        self, date: str, previous_date: str | None, tasks: tuple[Task, ...], verticals: tuple[str, ...]
    ) -> DayPlan:
        """The plan of one date.

        Raises:
            ConfigError: the environment names an impossible number of days to replay.
        """
        replay_days = places.replay_days() if self.replay_days is None else self.replay_days
        return DayPlan(
            date=date, previous_date=previous_date, tasks=tasks, verticals=verticals,
            contract_path=str(self.contract_path()), home=str(self.home_path()),
            size=self.size or places.run_size(), seed=self.seed, threads=self.threads, replay_days=replay_days,
        )  # fmt: skip

    def plans(self, dates: list[str], tasks: tuple[Task, ...], verticals: tuple[str, ...] = ()) -> list[DayPlan]:
        """Plans of several dates, oldest first: each starts from the models of the date before it.

        Raises:
            dagster.Failure: a model that the first date starts from is missing; not to be tried again.
        """
        ordered = sorted(dates)
        try:
            first = previous_model_date(self.load_contract(), self.home_path(), ordered[0])
        except GemError as error:
            raise dg.Failure(str(error), allow_retries=False) from error
        before = [first, *ordered[:-1]]
        return [self.plan(date, previous, tasks, verticals) for date, previous in zip(ordered, before, strict=True)]
