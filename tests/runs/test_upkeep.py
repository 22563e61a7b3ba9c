"""Upkeep removes what nobody needs, and nothing that a stored model or the retention needs."""

from __future__ import annotations

import json
import os
import time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from gem_pipeline.errors import ConfigError
from gem_pipeline.runs.upkeep import UpkeepPolicy, keep_up, pinned_versions

NOW = UpkeepPolicy(retention_days=1)


def rows(value, date="2026-01-01"):
    return pa.table({"date": [date] * 3, "value": [value] * 3})


@pytest.fixture
def home(tmp_path):
    """Five versions of a gated table, six small files of an ungated one."""
    path = str(tmp_path / "lake" / "examples")
    for value in range(5):
        write_deltalake(path, rows(value), mode="overwrite", partition_by=["date"])
    for value in range(6):
        write_deltalake(str(tmp_path / "lake" / "predictions"), rows(value), mode="append", partition_by=["date"])
    return tmp_path


def store_model(home, name, **inputs):
    folder = home / "models" / "gem" / "2026-01-01" / name
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps({"kind": "foundation", "inputs": inputs}))


def of(home, table, version=None):
    return DeltaTable(str(home / "lake" / table), version=version).to_pyarrow_table()["value"].to_pylist()


def age(home, days=40):
    """Let every commit be so many days older."""
    for log in (home / "lake").rglob("_delta_log/*.json"):
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        for action in lines:
            for name in ("deletionTimestamp", "timestamp", "modificationTime"):
                for body in action.values():
                    if name in body:
                        body[name] -= days * 86_400_000
        log.write_text("\n".join(json.dumps(line) for line in lines))


def test_versions_are_pinned_by_the_models_that_name_them(home):
    store_model(home, "a", examples=1, user_events=4)
    store_model(home, "b", examples=3)
    assert pinned_versions(home) == {"examples": (1, 3), "user_events": (4,)}


def test_young_files_stay(home):
    report = {one.table: one for one in keep_up(home, UpkeepPolicy(retention_days=30))}
    assert report["examples"].removed_files == 0
    assert of(home, "examples", version=0) == [0, 0, 0]


def test_old_files_go_but_those_of_versions_that_a_model_names(home):
    store_model(home, "a", examples=1)
    store_model(home, "b", examples=3)
    age(home)
    report = {one.table: one for one in keep_up(home, UpkeepPolicy(retention_days=30))}
    assert (report["examples"].removed_files, report["examples"].pinned) == (2, (1, 3))
    assert [of(home, "examples", version) for version in (1, 3, 4)] == [[1] * 3, [3] * 3, [4] * 3]
    for gone in (0, 2):
        with pytest.raises(Exception, match=r"not found|No such file"):
            of(home, "examples", gone)


def test_many_small_files_are_compacted_without_a_change_of_content(home):
    report = {one.table: one for one in keep_up(home, NOW)}
    assert (report["predictions"].compacted_files, report["predictions"].num_files) == (6, 1)
    assert sorted(of(home, "predictions")) == sorted(v for v in range(6) for _ in range(3))
    again = {one.table: one for one in keep_up(home, NOW)}
    assert again["predictions"].compacted_files == 0


def orphan(home, table, days, *, written="0123abcd"):
    """A staged file that no version names, as a killed run leaves it."""
    path = home / "lake" / table / written / "date=2026-01-01" / "part-0.parquet"
    path.parent.mkdir(parents=True)
    pq.write_table(rows(9).select(["value"]), path)
    os.utime(path, (time.time() - days * 86_400,) * 2)
    return path


def test_staged_files_that_no_version_ever_named_go_when_they_are_old(home):
    write_deltalake(str(home / "lake" / "quarantine" / "examples"), rows(1), partition_by=["date"])
    half = orphan(home, "examples", 40, written="0123abce/_temporary/0/task_1")
    old = half, orphan(home, "examples", 40), orphan(home, "quarantine/examples", 40)
    young, foreign = orphan(home, "user_events", 3), orphan(home, "predictions", 40)
    write_deltalake(str(home / "lake" / "user_events"), rows(1), partition_by=["date"])
    before = of(home, "examples")
    removed = {one.table: one.removed_files for one in keep_up(home, UpkeepPolicy(retention_days=30))}
    assert (removed["examples"], removed["quarantine/examples"], removed["user_events"]) == (2, 1, 0)
    assert [path.exists() for path in (*old, young, foreign)] == [False, False, False, True, True]
    assert of(home, "examples") == before


def test_a_file_written_long_ago_and_replaced_of_late_stays(home):
    for path in (home / "lake" / "examples").rglob("*.parquet"):
        os.utime(path, (1, 1))
    report = {one.table: one for one in keep_up(home, UpkeepPolicy(retention_days=30), only=("examples",))}
    assert report["examples"].removed_files == 0
    assert of(home, "examples", version=0) == [0, 0, 0]


def test_a_dry_run_changes_nothing(home):
    before = {path: path.stat().st_mtime_ns for path in (home / "lake").rglob("*")}
    keep_up(home, UpkeepPolicy(retention_days=1, dry_run=True))
    assert {path: path.stat().st_mtime_ns for path in (home / "lake").rglob("*")} == before


def test_only_the_named_tables_are_touched(home):
    assert [one.table for one in keep_up(home, NOW, only=("examples",))] == ["examples"]


def test_an_impossible_policy_is_refused():
    with pytest.raises(ConfigError, match="retention_days"):
        UpkeepPolicy(retention_days=0)
