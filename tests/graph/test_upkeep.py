"""The upkeep job tells the sizes of every table and obeys its configuration."""

from __future__ import annotations

import dagster as dg
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from jobs.upkeep import table_upkeep, weekly_upkeep
from resources.settings import GemSettings

pytestmark = pytest.mark.graph


@pytest.fixture
def home(tmp_path):
    for value in range(6):
        rows = pa.table({"date": ["2026-01-01"], "value": [value]})
        write_deltalake(str(tmp_path / "lake" / "predictions"), rows, mode="append", partition_by=["date"])
    return tmp_path


def run(home, **config):
    return table_upkeep.execute_in_process(
        run_config={"ops": {"keep_tables_up": {"config": config}}} if config else {},
        resources={"settings": GemSettings(home=str(home))},
    )


def sizes(result):
    found = [event.asset_observation_data.asset_observation for event in result.get_asset_observation_events()]
    return {one.asset_key.path[-1]: {k: v.value for k, v in one.metadata.items()} for one in found}


def test_every_table_is_compacted_and_its_sizes_are_told(home):
    found = sizes(run(home))["predictions"]
    assert (found["compacted_files"], found["files"], found["removed_files"]) == (6, 1, 0)
    assert found["bytes"] > 0


def test_a_dry_run_leaves_the_table_alone(home):
    run(home, dry_run=True)
    assert DeltaTable(str(home / "lake" / "predictions")).version() == 5


def test_an_impossible_policy_fails_the_run_with_its_remedy(home):
    with pytest.raises(Exception, match="retention_days"):
        run(home, retention_days=0)


def test_the_schedule_is_off_until_it_is_switched_on():
    assert weekly_upkeep.default_status is dg.DefaultScheduleStatus.STOPPED
