"""The definitions: they load without starting anything, and promise what the design promises."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import dagster as dg
import pytest

from assets.partitions import DAYS
from gem_pipeline.definitions import defs

pytestmark = [pytest.mark.graph, pytest.mark.filterwarnings("error")]
ROOT = Path(__file__).parents[2]

QUIET = """
import sys, warnings
warnings.simplefilter("error")
import gem_pipeline.definitions as d
d.defs.get_repository_def()
d.defs.resolve_all_job_defs()
heavy = {"torch", "pyspark", "mlflow", "great_expectations", "matplotlib"} & set(sys.modules)
sys.exit(f"imported {heavy}" if heavy else 0)
"""


def parents(child: str, parent: str, first: str, last: str) -> list[str]:
    """Partitions of `parent` that a range of `child` needs."""
    graph = defs.resolve_asset_graph()
    mapping = graph.get_partition_mapping(dg.AssetKey(child), dg.AssetKey(parent))
    subset = DAYS.subset_with_partition_keys(DAYS.get_partition_keys_in_range(dg.PartitionKeyRange(first, last)))
    found = mapping.get_upstream_mapped_partitions_result_for_partitions(subset, DAYS, DAYS)
    assert not list(found.required_but_nonexistent_subset.get_partition_keys())
    return sorted(found.partitions_subset.get_partition_keys())


def test_importing_them_starts_nothing_loads_nothing_heavy_and_warns_of_nothing(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", QUIET], cwd=ROOT, env={"GEM_HOME": str(tmp_path / "home"), "PATH": ""},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "home").exists()


def test_a_broken_contract_is_one_plain_sentence(tmp_path):
    broken = tmp_path / "contract.yaml"
    broken.write_text("version: 1\n", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", QUIET], cwd=ROOT, env={"GEM_CONTRACT": str(broken), "PATH": ""},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "ContractError" in done.stderr.splitlines()[-1]


def test_keys_groups_and_dependencies_are_the_golden_ones(golden):
    graph = defs.resolve_asset_graph()
    golden(
        "asset_graph.json",
        {
            node.key.to_user_string(): {
                "group": node.group_name,
                "deps": sorted(parent.to_user_string() for parent in node.parent_keys),
                "checks": sorted(key.name for key in node.check_keys),
                "pools": sorted(node.pools or ()),
            }
            for node in graph.asset_nodes
        },
    )


def test_every_asset_takes_a_range_in_one_run():
    for node in defs.resolve_asset_graph().asset_nodes:
        assert node.backfill_policy == dg.BackfillPolicy.single_run(), node.key


def test_counter_increments_need_the_days_in_which_events_may_still_arrive():
    assert parents("counter_increments", "user_events", "2022-04-28", "2022-04-28") == ["2022-04-26", "2022-04-27"]
    assert parents("counter_increments", "user_events", "2022-04-24", "2022-04-24") == []


def test_events_need_the_source_rows_of_the_days_in_which_their_copies_may_lie():
    assert parents("user_events", "raw_tables", "2022-04-28", "2022-04-28") == ["2022-04-27", "2022-04-28"]


def test_vectors_belong_to_no_day_and_come_before_the_examples():
    graph = defs.resolve_asset_graph()
    assert graph.get(dg.AssetKey("vectors")).partitions_def is None
    assert dg.AssetKey("vectors") in graph.get(dg.AssetKey("examples")).parent_keys
    assert {key.name for key in graph.get(dg.AssetKey("vectors")).check_keys} == {"quality_gate", "quality_warnings"}


def test_examples_need_the_counters_of_the_window():
    needed = parents("examples", "counter_increments", "2022-05-08", "2022-05-08")
    assert (needed[0], needed[-1], len(needed)) == ("2022-04-25", "2022-05-08", 14)


def test_teacher_outputs_and_the_foundation_model_need_the_model_of_the_day_before():
    for child in ("teacher_outputs", "foundation_model"):
        assert parents(child, "foundation_model", "2022-04-26", "2022-04-28") == [
            "2022-04-25", "2022-04-26", "2022-04-27",
        ]  # fmt: skip
        assert parents(child, "foundation_model", "2022-04-24", "2022-04-24") == []


def test_a_day_is_evaluated_after_all_its_verticals():
    graph = defs.resolve_asset_graph()
    mapping = graph.get_partition_mapping(dg.AssetKey("evaluation"), dg.AssetKey("vertical_models"))
    assert type(mapping).__name__ == "MultiToSingleDimensionPartitionMapping"


def test_gates_block_and_warnings_do_not():
    graph = defs.resolve_asset_graph()
    blocking = {key.name: graph.get(key).blocking for key in graph.asset_check_keys}
    assert blocking == {"quality_gate": True, "quality_warnings": False}


def test_the_schedule_refreshes_yesterday_at_the_hour_of_the_contract():
    schedule = defs.resolve_schedule_def("daily_refresh")
    assert schedule.cron_schedule == "0 3 * * *"
    context = dg.build_schedule_context(
        scheduled_execution_time=datetime(2022, 4, 28, 3, tzinfo=UTC), repository_def=defs.get_repository_def()
    )
    (request,) = schedule.evaluate_tick(context).run_requests
    assert request.partition_key == "2022-04-27"
    after_the_log = dg.build_schedule_context(scheduled_execution_time=datetime(2026, 1, 1, 3, tzinfo=UTC))
    assert "not a day of this log" in schedule.evaluate_tick(after_the_log).skip_message
    assert schedule.default_status is dg.DefaultScheduleStatus.STOPPED
