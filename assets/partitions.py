"""Partitions of the graph, how they map onto each other, and how they are backfilled.

Every asset takes a whole range of dates in one run and works through it in date order: one Spark session, one
trainer process, and never two days of a model chain at once, whichever way the backfill was started.
"""

import warnings
from collections.abc import Callable, Sequence
from datetime import date, timedelta
from typing import ParamSpec, TypeVar

import dagster as dg

from gem_pipeline.contracts.contract import load_contract
from gem_pipeline.places import contract_path
from gem_pipeline.training.plan import eligible_verticals
from resources.settings import GemSettings

P = ParamSpec("P")
T = TypeVar("T")

CONTRACT = load_contract(contract_path())


def _day_after(day: str | None) -> str | None:
    return None if day is None else str(date.fromisoformat(day) + timedelta(days=1))


DAYS = dg.DailyPartitionsDefinition(
    start_date=CONTRACT.partition.first_day, end_date=_day_after(CONTRACT.partition.last_day)
)
VERTICALS = dg.DynamicPartitionsDefinition(name="vertical")
DAYS_BY_VERTICAL = dg.MultiPartitionsDefinition({"date": DAYS, "vertical": VERTICALS})
RANGE_START, RANGE_END = "dagster/asset_partition_range_start", "dagster/asset_partition_range_end"
ONE_RUN = dg.BackfillPolicy.single_run()


def days_back(first: int, last: int) -> dg.TimeWindowPartitionMapping:
    """Depend on the days from `first` to `last` days before; days before the log began are left out."""
    return dg.TimeWindowPartitionMapping(start_offset=-first, end_offset=-last)


def register_verticals(instance: dg.DagsterInstance, settings: GemSettings, dates: Sequence[str]) -> list[str]:
    """Add the cells that have enough examples on some dates to the partitions, up to the contract's number.

    A vertical that was added once stays: its model is trained further every day.

    Returns:
        All verticals, in the order in which they were added.
    """
    contract = settings.load_contract()
    known = list(instance.get_dynamic_partitions("vertical"))
    found = eligible_verticals(contract, settings.home_path(), dates)
    new = [key for key in found if key not in known][: max(0, contract.verticals.max_models - len(known))]
    if new:
        instance.add_dynamic_partitions("vertical", new)
    return [*known, *new]


def dates_and_verticals(context: dg.AssetExecutionContext) -> tuple[list[str], list[str]]:
    """Dates and verticals of a run, each sorted.

    Raises:
        dagster.Failure: a backfill of a job asked for them. Dagster 1.13 tags its runs with a range and with the first
            key of the backfill as well, and then materializes that one key only: nothing would say that the rest
            was left out.
    """
    tags = context.run.tags
    if RANGE_START in tags and any(tag.startswith("dagster/partition/") for tag in tags):
        raise dg.Failure(
            "A backfill of this job would leave out all but one date and vertical. "
            "Backfill the asset vertical_models instead (on its own page), or let the sensor verticals_follow run.",
            allow_retries=False,
        )
    keys = [key.split("|") for key in context.partition_keys]
    return sorted({date for date, _ in keys}), sorted({vertical for _, vertical in keys})


def _accept_beta(define: Callable[P, T]) -> Callable[P, T]:
    """Let a decorator take `backfill_policy`, which Dagster still marks as beta, without its warning."""

    def defined(*arguments: P.args, **options: P.kwargs) -> T:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", dg.BetaWarning)
            return define(*arguments, **options)

    return defined


asset = _accept_beta(dg.asset)
multi_asset = _accept_beta(dg.multi_asset)
