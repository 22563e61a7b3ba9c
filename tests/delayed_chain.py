"""A chain of days whose contract has conversions that mature after one and after two days."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gem_pipeline.contracts.contract import DataContract
from gem_pipeline.runs.day import train_day
from gem_pipeline.runs.records import DayReport
from gem_pipeline.training.plan import DayPlan
from tests.chain_factory import Chain
from tests.lake_factory import make_lake, put_conversions, write_delayed_contract

DAYS = ("2022-05-01", "2022-05-02", "2022-05-03", "2022-05-04", "2022-05-05")
VERTICALS = ("tab_1__click", "tab_1__lead", "tab_0__order")
ROWS = 90


@dataclass(frozen=True, kw_only=True)
class DelayedChain(Chain):
    """A chain with a contract of its own."""

    contract: DataContract
    contract_path: Path

    def plan(self, date: str, **changes) -> DayPlan:
        """The plan of a day."""
        place = DAYS.index(date)
        own = {
            "date": date, "previous_date": DAYS[place - 1] if place else None, "home": str(self.home), "threads": 1,
            "contract_path": str(self.contract_path), "verticals": VERTICALS,
        }  # fmt: skip
        return DayPlan(**(own | changes))

    def credit(self, day: str, *late: tuple[str, str, str]) -> None:
        """Every third impression of a day has a conversion of each kind that arrived on the day; `late` ones beside."""
        timely = [(f"{day}:{i}", name, day) for i in range(0, ROWS, 3) for name in ("order", "lead")]
        put_conversions(self.home, self.contract, day, [*timely, *late])

    def train(self, date: str, **changes) -> DayReport:
        """Train a day."""
        self.reports[date] = train_day(self.plan(date, **changes))
        return self.reports[date]


def delayed_chain(home: Path) -> DelayedChain:
    """Make the lake; nothing is trained yet."""
    path = home.parent / f"{home.name}-contract.yaml"
    own = write_delayed_contract(path)
    make_lake(home, days=DAYS, rows=ROWS, own=own)
    chain = DelayedChain(home=home, reports={}, contract=own, contract_path=path)
    for day in DAYS:
        chain.credit(day)
    return chain
