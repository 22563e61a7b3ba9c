"""The upkeep of the lake as a job with a weekly schedule: compaction, old files, sizes told as metadata."""

import dagster as dg
from pydantic import Field

from gem_pipeline.runs.upkeep import UpkeepPolicy, keep_up
from resources.settings import GemSettings


class UpkeepConfig(dg.Config):
    """What a run may do; docs/operations.md explains each."""

    retention_days: int = 30
    compact_files: int = 4
    target_mb: int = 128
    dry_run: bool = False
    tables: list[str] = Field(default_factory=list)


@dg.op(pool="spark")
def keep_tables_up(context: dg.OpExecutionContext, config: UpkeepConfig, settings: GemSettings) -> None:
    """Compact tables, remove files that no version in force needs, and tell the sizes."""
    policy = UpkeepPolicy(**config.model_dump(exclude={"tables"}))
    for one in keep_up(settings.home_path(), policy, only=tuple(config.tables)):
        context.log_event(
            dg.AssetObservation(
                asset_key=["lake", *one.table.split("/")],
                metadata={
                    "delta_version": one.version, "pinned_versions": list(one.pinned), "files": one.num_files,
                    "bytes": one.num_bytes, "mean_file_mb": round(one.mean_file_mb, 3),
                    "largest_partition_files": one.largest_partition_files,
                    "compacted_files": one.compacted_files, "removed_files": one.removed_files,
                },
            )
        )  # fmt: skip


@dg.job(description="Upkeep of the lake: file sizes, compaction, vacuum. Versions that models name are kept.")
def table_upkeep() -> None:
    """Upkeep of every table."""
    keep_tables_up()


# Off until it is switched on in the UI, as the other schedules are.
weekly_upkeep = dg.ScheduleDefinition(
    name="weekly_upkeep", job=table_upkeep, cron_schedule="0 5 * * 0", execution_timezone="UTC",
    default_status=dg.DefaultScheduleStatus.STOPPED,
)  # fmt: skip
