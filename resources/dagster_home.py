"""Dagster's own folder: storage in SQLite, pools, telemetry off."""

from pathlib import Path

from gem_pipeline.atomic import write_text

_INSTANCE = """\
# Written by gem_pipeline when it is missing; edit it freely, for example to move storage to Postgres.
telemetry:
  enabled: false

concurrency:
  runs:
    max_concurrent_runs: 1   # on this machine one run at a time, in the order they were asked for
  pools:
    granularity: run
    default_limit: 1         # where more runs are allowed: pools `spark` and `trainer` still take one each

run_retries:             # a crashed run is tried again; bad data is not
  enabled: true
  max_retries: 1
  retry_on_asset_or_op_failure: false

run_monitoring:          # a killed run is marked as failed instead of running for ever
  enabled: true
"""


def write_dagster_home(home: Path) -> Path:
    """Make `home/dagster_home` with a configuration; one that is there is left alone.

    Returns:
        The folder, to be named by DAGSTER_HOME.
    """
    folder = home.absolute() / "dagster_home"
    configuration = folder / "dagster.yaml"
    if not configuration.exists():
        write_text(configuration, _INSTANCE)
    return folder
