"""Vertical models: one a surface and objective, without and with the teacher. One trainer process a run."""

import dagster as dg

from assets.models import vertical_results
from assets.partitions import DAYS_BY_VERTICAL, ONE_RUN, asset, dates_and_verticals
from gem_pipeline.training.plan import ARMS
from resources.launcher import TrainerLauncher
from resources.settings import GemSettings


@asset(
    group_name="verticals", kinds={"pytorch", "mlflow"}, code_version="1", partitions_def=DAYS_BY_VERTICAL,
    backfill_policy=ONE_RUN, pool="trainer",
    deps=["teacher_outputs", "examples", "attributed_conversions"],
)  # fmt: skip
def vertical_models(
    context: dg.AssetExecutionContext, settings: GemSettings, launcher: TrainerLauncher
) -> dg.MaterializeResult:
    """The vertical models of some dates, in date order; one materialization a date and vertical."""
    dates, verticals = dates_and_verticals(context)
    reports = launcher.train(context, settings.plans(dates, ("verticals",), tuple(verticals)))
    return vertical_results(context, "vertical_models", reports, [f"{d}|{v}" for d in dates for v in verticals], ARMS)
