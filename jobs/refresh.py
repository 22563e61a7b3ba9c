"""The jobs of the refresh, in order, and its schedule.

A Dagster run has one kind of partition, so a full refresh is three runs: the days up to the foundation model,
then the verticals, then the evaluation. The sensors in `jobs.follow_up` chain them.
"""

from datetime import timedelta

import dagster as dg

from assets.partitions import CONTRACT

FEATURE_TABLES = (
    "raw_tables", "user_events", "counter_increments", "vectors", "examples", "attributed_conversions",
)  # fmt: skip
FOUNDATION = ("teacher_outputs", "foundation_model", "logistic_regression")

refresh = dg.define_asset_job(
    "refresh",
    selection=dg.AssetSelection.assets(*FEATURE_TABLES, *FOUNDATION),
    description="Days, from raw tables to the foundation model. Backfill it over any range: one run, in date order.",
)
refresh_history = dg.define_asset_job(
    "refresh_history",
    selection=dg.AssetSelection.assets("raw_tables", "user_events"),
    description="Days that are only history: their events, no examples. Days without impressions are welcome.",
)
refresh_counters = dg.define_asset_job(
    "refresh_counters",
    selection=dg.AssetSelection.assets("counter_increments"),
    description="Counter increments of days that have impressions.",
)
refresh_features = dg.define_asset_job(
    "refresh_features",
    selection=dg.AssetSelection.assets(*FEATURE_TABLES),
    description="Days of the feature tables only: what a day that landed again needs. The model chain stays as it is.",
)
refresh_models = dg.define_asset_job(
    "refresh_models",
    selection=dg.AssetSelection.assets(*FOUNDATION),
    description="Days of the foundation model over features that are there.",
)
refresh_verticals = dg.define_asset_job(
    "refresh_verticals",
    selection=dg.AssetSelection.assets("vertical_models"),
    description="Vertical models of some days.",
)
refresh_evaluation = dg.define_asset_job(
    "refresh_evaluation", selection=dg.AssetSelection.assets("evaluation"), description="Evaluation of some days."
)

JOBS = (
    refresh,
    refresh_history,
    refresh_counters,
    refresh_features,
    refresh_models,
    refresh_verticals,
    refresh_evaluation,
)


# Off until it is switched on in the UI: the sensor `new_bronze_partition` does the same as soon as data lands.
# (Dagster's build_schedule_from_partitioned_job calls a deprecated function of its own at every tick.)
@dg.schedule(
    job=refresh,
    cron_schedule=f"0 {CONTRACT.partition.schedule_hour} * * *",
    execution_timezone="UTC",
    default_status=dg.DefaultScheduleStatus.STOPPED,
    description="Refreshes yesterday's partition, for sources whose arrival cannot be watched.",
)
def daily_refresh(context: dg.ScheduleEvaluationContext) -> dg.RunRequest | dg.SkipReason:
    """Ask for the day before the tick, if the log has it."""
    yesterday = str((context.scheduled_execution_time - timedelta(days=1)).date())
    rule = CONTRACT.partition
    if yesterday < rule.first_day or (rule.last_day is not None and yesterday > rule.last_day):
        return dg.SkipReason(f"{yesterday} is not a day of this log.")
    return dg.RunRequest(run_key=yesterday, partition_key=yesterday)
