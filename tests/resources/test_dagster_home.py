"""Dagster's folder: a configuration that Dagster accepts, and that a user may change."""

from __future__ import annotations

import dagster as dg
import pytest

from resources.dagster_home import write_dagster_home


@pytest.mark.filterwarnings("error")
def test_dagster_accepts_the_configuration_without_a_warning(tmp_path):
    folder = write_dagster_home(tmp_path)
    with dg.DagsterInstance.from_config(str(folder)) as instance:
        assert instance.telemetry_enabled is False
        assert instance.run_retries_enabled
        assert instance.run_retries_max_retries == 1
        assert instance.run_retries_retry_on_asset_or_op_failure is False
        assert instance.get_concurrency_config().run_queue_config.max_concurrent_runs == 1


def test_a_changed_configuration_is_left_alone(tmp_path):
    folder = write_dagster_home(tmp_path)
    (folder / "dagster.yaml").write_text("telemetry:\n  enabled: true\n")
    write_dagster_home(tmp_path)
    assert "true" in (folder / "dagster.yaml").read_text()
