"""All assets, jobs, schedules, sensors and resources, put together. Nothing starts here."""

import dagster as dg

from assets import evaluation, features, foundation, raw, verticals
from jobs.arrivals import new_bronze_partition
from jobs.follow_up import evaluation_follows, verticals_follow
from jobs.refresh import JOBS, daily_refresh
from jobs.upkeep import table_upkeep, weekly_upkeep
from resources.features import FeatureDerivation
from resources.launcher import TrainerLauncher
from resources.settings import GemSettings


def build_definitions(settings: GemSettings | None = None, launcher: TrainerLauncher | None = None) -> dg.Definitions:
    """The graph over some settings; without any, over the environment's at the time of a run."""
    return dg.Definitions(
        assets=dg.load_assets_from_modules([raw, features, foundation, verticals, evaluation]),
        jobs=[*JOBS, table_upkeep],
        schedules=[daily_refresh, weekly_upkeep],
        sensors=[new_bronze_partition, verticals_follow, evaluation_follows],
        resources={
            "settings": settings or GemSettings(),
            "features": FeatureDerivation(),
            "launcher": launcher or TrainerLauncher(),
        },
        executor=dg.in_process_executor,  # the Spark steps of a run share one JVM; training has its own process
    )
