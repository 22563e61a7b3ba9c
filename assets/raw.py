"""Bronze: the log as it landed."""

from typing import Any

import dagster as dg

from assets.partitions import DAYS, ONE_RUN, asset
from assets.reports import materialized
from resources.arrivals import land_or_find
from resources.plots import bars
from resources.settings import GemSettings


@asset(
    group_name="raw", kinds={"deltalake"}, code_version="1", partitions_def=DAYS, backfill_policy=ONE_RUN, pool="spark"
)
def raw_tables(context: dg.AssetExecutionContext, settings: GemSettings) -> dg.MaterializeResult:
    """Impressions, engagements and dimensions of a day; the tables of a contract of your own are only looked at."""
    landed = land_or_find(settings, context.partition_keys)
    numbers: dict[str, dict[str, Any]] = {
        day.date: {"dagster/row_count": day.num_impressions, "engagements": day.num_engagements,
                   "delta_version": day.version, "unchanged": day.unchanged}
        for day in landed
    }  # fmt: skip
    for day in landed:
        if day.num_impressions >= 0:  # the user's own tables are not counted
            rows = {"impressions": day.num_impressions, "engagements": day.num_engagements}
            numbers[day.date]["plot"] = bars(rows, title=f"landed on {day.date}", unit="rows")
    return materialized(context, "raw_tables", {day.date: day.fingerprint for day in landed}, numbers)
