"""Sensors that go on where a run ended: after the foundation model its verticals, after these the evaluation."""

import dagster as dg

from jobs.ranges import dates_of, range_tags
from jobs.refresh import refresh, refresh_evaluation, refresh_models, refresh_verticals

Requested = dg.RunRequest | dg.SkipReason


@dg.run_status_sensor(
    run_status=dg.DagsterRunStatus.SUCCESS,
    monitored_jobs=[refresh, refresh_models],
    request_job=refresh_verticals,
    default_status=dg.DefaultSensorStatus.STOPPED,
    description="When the foundation model of some days is done, trains their verticals in one run.",
)
def verticals_follow(context: dg.RunStatusSensorContext) -> Requested:
    """Ask for the vertical models of the days of the run."""
    dates = dates_of(context.dagster_run.tags)
    verticals = context.instance.get_dynamic_partitions("vertical")
    if dates is None or not verticals:
        return dg.SkipReason("No cell has enough examples for a vertical model yet.")
    return dg.RunRequest(run_key=f"verticals:{context.dagster_run.run_id}", tags=range_tags(*dates, verticals))


@dg.run_status_sensor(
    run_status=dg.DagsterRunStatus.SUCCESS,
    monitored_jobs=[refresh_verticals],
    request_job=refresh_evaluation,
    default_status=dg.DefaultSensorStatus.STOPPED,
    description="When the vertical models of some days are done, evaluates the days.",
)
def evaluation_follows(context: dg.RunStatusSensorContext) -> Requested:
    """Ask for the evaluation of the days of the run."""
    dates = dates_of(context.dagster_run.tags)
    if dates is None:
        return dg.SkipReason("The run had no partition.")
    return dg.RunRequest(run_key=f"evaluation:{context.dagster_run.run_id}", tags=range_tags(*dates))
